// @runtimes node bun deno
// @limit 300
// WebSockets of the client: processes that it is attached to, terminals and events, with lost connections.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import WsWebSocket from "ws";
import {
  type ApiError,
  type ApiEvent,
  type Client,
  createClient,
  type SocketConstructor,
} from "../../../edge/client/index.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { clientEdge, INSTANCE, KEY } from "./client-edge.ts";

const test = suite("createClient: WebSockets");
let running: Awaited<ReturnType<typeof clientEdge>>;
let client: Client;
/** The client's sockets, which a test can close. */
let sockets: { close(): void; readonly readyState: number }[] = [];

test.before(async () => {
  running = await clientEdge();
  const Own = (globalThis as { WebSocket?: SocketConstructor }).WebSocket ?? (WsWebSocket as SocketConstructor);
  const Known = class extends Own {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      sockets.push(this as unknown as (typeof sockets)[number]);
    }
  };
  client = createClient({ url: running.url, key: KEY, WebSocket: Known });
});
test.before.each(() => {
  sockets = [];
});
test.after(() => running.stop());

const sh = (script: string) => ["/bin/sh", "-c", script];

/** What a stream has given up to now. */
function collected(stream: ReadableStream<Uint8Array>) {
  const found = { text: "", isOver: false, error: undefined as unknown };
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  const read = async (): Promise<void> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      found.text += decoder.decode(value, { stream: true });
    }
    found.isOver = true;
  };
  read().catch((error: unknown) => {
    found.error = error;
  });
  return found;
}

function lose(): void {
  for (const socket of sockets.splice(0)) socket.close();
}

test("start: input is streamed in, both outputs out, and the exit code comes", async () => {
  const { stdin, stdout, stderr, exited } = await client.processes.start(INSTANCE, sh("cat; echo no >&2; exit 5"));
  const [out, problems] = [collected(stdout), collected(stderr)];
  const line = `${"x".repeat(1023)}\n`;
  let count = 0;
  const input = new ReadableStream<string>({
    pull: (controller) => (count++ < 1024 ? controller.enqueue(line) : controller.close()),
  });
  await input.pipeTo(stdin);
  const { exitCode, truncated } = await exited;
  await eventually(() => out.isOver && problems.isOver);
  assert.equal([exitCode, truncated, problems.text], [5, undefined, "no\n"]);
  assert.ok(out.text === line.repeat(1024));
});

test("start: an output that is not read holds nothing up, and can be read after the end", async () => {
  const started = await client.processes.start(INSTANCE, sh("head -c 3000000 /dev/zero >&2; echo done"));
  assert.is((await started.exited).exitCode, 0);
  const [out, flood] = [collected(started.stdout), collected(started.stderr)];
  await eventually(() => out.isOver && (flood.isOver || flood.error !== undefined));
  assert.is(out.text, "done\n");
});

test("output beyond what may wait for its reader closes the connection, and all of it comes when it is read", async () => {
  const lines = sh("i=0; while [ $i -lt 9000 ]; do i=$((i+1)); echo line $i; done; exit 4");
  const { pid, exited } = await client.processes.start(INSTANCE, lines);
  await exited;
  lose();
  const { stdout, exited: again } = await client.processes.attach(INSTANCE, pid, { mostUnread: 1024 });
  const reader = stdout.getReader();
  await eventually(() => sockets[0]?.readyState === WsWebSocket.CLOSED);
  let text = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) text += Buffer.from(read.value);
  assert.ok(text === Array.from({ length: 9000 }, (_, at) => `line ${at + 1}\n`).join(""), `${text.length}`);
  assert.equal([(await again).exitCode, sockets.length > 1], [4, true]);
});

test("a lost connection is made again, and output goes on where it was", async () => {
  const script = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; sleep 0.01; done";
  const started = await client.processes.start(INSTANCE, sh(script));
  const out = collected(started.stdout);
  await eventually(() => out.text.includes("line 20\n"));
  lose();
  await eventually(() => sockets.length > 0 && out.text.includes("line 150\n"));
  running.edge.attachments.close();
  const { exitCode, truncated } = await started.exited;
  await eventually(() => out.isOver);
  assert.equal([exitCode, truncated], [0, undefined]);
  assert.is(out.text, Array.from({ length: 300 }, (_, at) => `line ${at + 1}\n`).join(""));
});

test("a lost connection with input under way fails, and the process goes on for another client", async () => {
  const script = sh('while read line; do echo "got $line"; done; echo end');
  const started = await client.processes.start(INSTANCE, script);
  const out = collected(started.stdout);
  await started.write("one\n");
  await eventually(() => out.text === "got one\n");
  lose();
  const error = (await errorOf(started.exited)) as ApiError;
  assert.match(error.message, "input may be lost");
  assert.is((await errorOf(started.write("two\n"))) as ApiError, error);
  await eventually(() => out.error === error);
  const again = await client.processes.attach({ tenant: "ann", workload: "app" }, started.pid, { stdoutFrom: 8 });
  const rest = collected(again.stdout);
  await again.write("two\n");
  await again.end();
  assert.is((await again.exited).exitCode, 0);
  await eventually(() => rest.isOver);
  assert.is(rest.text, "got two\nend\n");
});

test("terminal: it has the client's size, and survives a lost connection with its input", async () => {
  const terminal = await client.processes.terminal(INSTANCE, { cols: 100, rows: 30 });
  const out = collected(terminal.stdout);
  await terminal.write("stty size\n");
  await eventually(() => out.text.includes("30 100"));
  lose();
  await eventually(() => sockets.length > 0);
  terminal.resize({ cols: 120, rows: 40 });
  // What is typed while it is lost is left out.
  await eventually(async () => {
    await terminal.write("stty size; exit 7\n");
    return out.text.includes("40 120");
  });
  assert.is((await terminal.exited).exitCode, 7);
  assert.is(out.text.match(/30 100/g)?.length, 1, "nothing comes twice");
});

test("detach and the signal leave a process, which goes on until it is ended", async () => {
  for (const isSignal of [true, false]) {
    const leaves = new AbortController();
    const started = await client.processes.start(INSTANCE, ["/bin/sleep", "1000"], { signal: leaves.signal });
    if (isSignal) leaves.abort(new Error("enough"));
    else started.detach();
    assert.match(((await errorOf(started.exited)) as Error).message, isSignal ? "enough" : "has left");
    assert.is((await client.processes.get(INSTANCE, started.pid)).state, "running");
    await started.kill("SIGKILL");
    await eventually(async () => (await client.processes.get(INSTANCE, started.pid)).signal === "SIGKILL");
  }
});

test("what is refused is an error with the API's words and status", async () => {
  const none = (await errorOf(client.processes.attach(INSTANCE, 4_000_000))) as ApiError;
  assert.equal([none.status, none.name], [404, "ApiError"]);
  const stranger = createClient({ url: running.url, key: "wrong" });
  assert.is(((await errorOf(stranger.processes.terminal(INSTANCE))) as ApiError).status, 401);
  const unclaimed = client.processes.terminal({ tenant: "bob", workload: "app" });
  assert.is(((await errorOf(unclaimed)) as ApiError).status, 404);
});

test("events: they come in order, also over a lost connection, until the loop is left", async () => {
  const { events } = running.edge;
  const publish = (name: string) =>
    events.publish({ type: "claim.active", tenant: "ann", workload: "app", object: { name } });
  const seen: ApiEvent[] = [];
  const end = new AbortController();
  const reading = (async () => {
    for await (const event of client.events({ tenant: "ann", signal: end.signal })) seen.push(event);
  })();
  await eventually(() => events.size === 1);
  publish("one");
  await eventually(() => seen.length === 1);
  lose();
  await eventually(() => events.size === 0);
  publish("two");
  await eventually(() => seen.length === 2);
  publish("three");
  await eventually(() => seen.length === 3);
  assert.equal(
    seen.map(({ type, object }) => [type, object?.name]),
    [
      ["claim.active", "one"],
      ["claim.active", "two"],
      ["claim.active", "three"],
    ],
  );
  end.abort(new Error("enough"));
  assert.is(((await errorOf(reading)) as Error).message, "enough");
  await eventually(() => events.size === 0);
});

test.run();
