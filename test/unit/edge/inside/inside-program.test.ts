// @runtimes bun node deno
// A channel and the real program, over pipes.
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../../crds/client/api-error.ts";
import type { Exec } from "../../../../crds/client/exec/exec.ts";
import { type Channel, InsideError, openChannel } from "../../../../edge/inside/channel.ts";
import { createChannels } from "../../../../edge/inside/channels.ts";
import { errorOf } from "../../../error-of.ts";
import { eventually } from "../../../eventually.ts";
import { localExec, untilCommandsEnd } from "../../snapshots/local-exec.ts";
import { insideExec } from "./inside-exec.ts";

const test = suite("a channel to the real program");

const MIB = 2 ** 20;
const BYTES = 64 * MIB;
const PIECE = randomBytes(MIB);

let exec: Exec;
let folder: string;
const opened: Channel[] = [];

test.before(async () => {
  exec = await insideExec();
  folder = mkdtempSync(join(tmpdir(), "tenancy-inside-"));
});
test.after.each(async () => {
  for (const channel of opened.splice(0)) channel.close();
  await untilCommandsEnd();
});
test.after(() => rmSync(folder, { recursive: true, force: true }));

async function open(): Promise<{ channel: Channel; kill: AbortController }> {
  const kill = new AbortController();
  const target = { namespace: "n", pod: "p", container: "c", command: [] };
  const channel = await openChannel({
    run: (streams) => exec({ ...target, ...streams, signal: AbortSignal.any([streams.signal, kill.signal]) }),
  });
  opened.push(channel);
  return { channel, kill };
}

async function* pieces(bytes: number, size = PIECE.length): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes; at += size) yield PIECE.subarray(0, Math.min(size, bytes - at));
}

async function write(channel: Channel, path: string, input: AsyncIterable<Uint8Array>): Promise<unknown> {
  const { answer, data } = await channel.call("write", { path }, { input });
  for await (const _ of data) throw new Error("a write sends no data");
  return answer;
}

function digestOf(bytes: number): string {
  const hash = createHash("sha256");
  for (let at = 0; at < bytes; at += PIECE.length) hash.update(PIECE);
  return hash.digest("hex");
}

/** Measures how far the resident memory rises above its first value. */
function watchMemory(): () => number {
  const first = process.memoryUsage().rss;
  let most = first;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
  }, 5);
  return () => {
    clearInterval(timer);
    return Math.round((most - first) / MIB);
  };
}

test("a caller that wants no more of an output gets no more, and the process runs to its end", async () => {
  const { channel } = await open();
  const command = ["/bin/sh", "-c", "head -c 50000000 /dev/zero; echo problem >&2"];
  const { data } = await channel.call("start", { command, mostOutput: 100_000 });
  const messages: Buffer[] = [];
  for await (const message of data) messages.push(Buffer.from(message));
  const bytesOf = (kind: number) =>
    messages.filter(([first]) => first === kind).reduce((sum, { length }) => sum + length - 9, 0);
  assert.ok(bytesOf(1) >= 100_000 && bytesOf(1) < 200_000, `${bytesOf(1)} bytes`);
  assert.is(bytesOf(2), 8);
  const { stdoutBytes, exitCode } = JSON.parse(messages.at(-1)?.toString("utf8", 1) ?? "");
  assert.equal([stdoutBytes, exitCode], [50_000_000, 0]);
});

test("four times 64 MiB pass in both directions, in memory that does not grow with them", async () => {
  const { channel } = await open();
  const path = join(folder, "large");
  const expected = digestOf(BYTES);
  const grown = watchMemory();
  const writeMs: number[] = [];
  const readMs: number[] = [];
  for (let round = 0; round < 4; round += 1) {
    const began = performance.now();
    await write(channel, path, pieces(BYTES));
    writeMs.push(Math.round(performance.now() - began));
    const written = performance.now();
    const { data } = await channel.call("read", { path });
    const hash = createHash("sha256");
    for await (const chunk of data) hash.update(chunk);
    readMs.push(Math.round(performance.now() - written));
    assert.is(hash.digest("hex"), expected);
  }
  const memory = grown();
  console.log(`note: 64 MiB written in ${writeMs} ms, read in ${readMs} ms, at most ${memory} MiB more memory`);
  // Half a gigabyte passed. Deno collects buffers late.
  assert.ok(memory < 160, `${memory} MiB`);
  assert.is(channel.openCalls(), 0);
});

test("small pieces of input arrive in order", async () => {
  const { channel } = await open();
  const path = join(folder, "small");
  await write(channel, path, pieces(MIB, 1021));
  const { answer, data } = await channel.call("read", { path });
  assert.is((answer as { length: number }).length, MIB);
  const chunks: Uint8Array[] = [];
  for await (const chunk of data) chunks.push(chunk);
  const expected: Uint8Array[] = [];
  for await (const piece of pieces(MIB, 1021)) expected.push(piece);
  assert.ok(Buffer.concat(chunks).equals(Buffer.concat(expected)));
});

test("readers that do not read stop no other call", async () => {
  const { channel } = await open();
  const path = join(folder, "slow");
  await write(channel, path, pieces(16 * MIB));
  const slow = await Promise.all(Array.from({ length: 20 }, () => channel.call("read", { path })));
  const { data } = await channel.call("read", { path });
  let bytes = 0;
  for await (const chunk of data) bytes += chunk.length;
  assert.is(bytes, 16 * MIB);
  await write(channel, join(folder, "beside"), pieces(4 * MIB));
  assert.is(channel.openCalls(), 20);
  const hash = createHash("sha256");
  for await (const chunk of slow[7]?.data ?? []) hash.update(chunk);
  assert.is(hash.digest("hex"), digestOf(16 * MIB));
});

test("a call that is left or aborted ends in the program too", async () => {
  const { channel } = await open();
  const path = join(folder, "cancelled");
  await write(channel, path, pieces(4 * MIB));
  const gone = new AbortController();
  // More than the program allows at a time.
  for (let count = 0; count < 300; count += 1) {
    const { data } = await channel.call("read", { path }, { signal: gone.signal });
    for await (const _ of data) break;
  }
  const { data } = await channel.call("read", { path }, { signal: gone.signal });
  gone.abort("gone");
  const error = await errorOf(data[Symbol.asyncIterator]().next());
  assert.is(error, "gone");
  assert.is(channel.openCalls(), 0);
  await channel.call("stat", { path });
});

test("an input that is cut leaves no file", async () => {
  const { channel } = await open();
  const path = join(folder, "cut");
  async function* cut(): AsyncGenerator<Uint8Array> {
    yield* pieces(2 * MIB);
    throw new Error("the client has gone");
  }
  assert.is(((await errorOf(write(channel, path, cut()))) as Error).message, "the client has gone");
  await eventually(async () => {
    const error = await errorOf(channel.call("stat", { path }));
    return error instanceof InsideError && error.code === "notFound";
  });
});

test("changes of a kept watch are forgotten once the input of the call that was sent them ends", async () => {
  const { channel } = await open();
  const { answer } = await channel.call("keepWatch", { path: folder, depth: 1 });
  const { id } = answer as { id: string };
  await write(channel, join(folder, "kept"), pieces(1));

  /** What a call is sent, which is left with the first bytes or has an input that ends. */
  async function sent(input?: AsyncIterable<Uint8Array>): Promise<string> {
    const { answer, data } = await channel.call("watchEvents", { id }, { input });
    let text = "";
    if ((answer as { bytes: number }).bytes === 0) await data[Symbol.asyncIterator]().return?.();
    else
      for await (const piece of data) {
        text += Buffer.from(piece).toString();
        if (input !== undefined) break;
      }
    return text;
  }

  const endless = async function* () {
    await new Promise<never>(() => undefined);
    yield PIECE;
  };
  let first = "";
  await eventually(async () => {
    first = await sent(endless());
    return first.includes("kept");
  });
  assert.match(await sent(endless()), first);
  let second = await sent();
  assert.match(second, first);
  // What was seen of the file later is sent once.
  await eventually(async () => {
    second = await sent();
    return second === "";
  });
  await channel.call("endWatch", { id });
});

test("input and output of a process pass at the same time", async () => {
  const { channel } = await open();
  async function* input(): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces(16 * MIB)) {
      const head = Buffer.alloc(5);
      head.writeUInt32BE(piece.length, 1);
      yield head;
      yield piece;
    }
    // The end of the process's input.
    yield Buffer.from([255, 0, 0, 0, 0]);
  }
  const call = { command: ["/bin/cat"], keepInput: true };
  const { data } = await channel.call("start", call, { input: input() });
  const hash = createHash("sha256");
  let state: { exitCode?: number } = {};
  for await (const message of data) {
    if (message[0] === 1) hash.update(message.subarray(9));
    else if (message[0] === 3) state = JSON.parse(Buffer.from(message.subarray(1)).toString());
  }
  assert.is(state.exitCode, 0);
  assert.is(hash.digest("hex"), digestOf(16 * MIB));
});

test("a connection that is cut fails all calls", async () => {
  const { channel, kill } = await open();
  const calls = Array.from({ length: 5 }, async () => {
    const { data } = await channel.call("start", { command: ["/bin/sleep", "600"] });
    for await (const _ of data) throw new Error("there is no output");
  });
  const failing = Promise.all(calls.map(errorOf));
  await channel.call("stat", { path: "/" });
  kill.abort(new NetworkError("cut", { requestWasSent: true }));
  for (const error of await failing) assert.is((error as Error).message, "cut");
  await channel.ended;
});

test("a program that cannot begin says why", async () => {
  const target = { namespace: "n", pod: "p", container: "c" };
  const wrong = ["/bin/sh", "-c", "echo no socket >&2; exit 3"];
  const error = await errorOf(openChannel({ run: (streams) => localExec({ ...target, command: wrong, ...streams }) }));
  assert.match((error as Error).message, /exit code 3: no socket$/);
});

test("many callers at a time share one exec", async () => {
  let execs = 0;
  const channels = createChannels({
    exec(options) {
      execs += 1;
      return exec(options);
    },
    isPresent: async () => true,
    namespace: "n",
  });
  const answers = await Promise.all(
    Array.from({ length: 200 }, async () => {
      const channel = await channels.channelTo({ name: "p", uid: "u" });
      const { answer, data } = await channel.call("stat", { path: folder });
      for await (const _ of data) throw new Error("there is no data");
      return (answer as { type: string }).type;
    }),
  );
  assert.equal([...new Set(answers)], ["directory"]);
  assert.is(execs, 1);
  await channels.close();
});

test.run();
