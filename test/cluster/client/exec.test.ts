// @own-cluster
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type WebSocket, WebSocketServer } from "ws";
import { createExec, type Exec } from "../../../crds/client/exec/exec.ts";

type Behaviour = (socket: WebSocket, request: IncomingMessage) => void;

interface Fake {
  server: Server;
  exec: Exec;
  requests: IncomingMessage[];
  /** What the next WebSocket meets. */
  behave: Behaviour;
  /** The server's newest protocol. */
  protocol: string;
  refuse: { status: number; body: object } | undefined;
  config: { server: string };
}

const test = suite<Fake>("createExec");
const target = { namespace: "n", pod: "p", container: "c", command: ["do", "a b&c"], timeoutMs: 60_000 };
const success = JSON.stringify({ status: "Success" });
const exited = (code: number) =>
  JSON.stringify({
    ...{ status: "Failure", reason: "NonZeroExitCode", message: `command terminated with exit code ${code}` },
    details: { causes: [{ reason: "ExitCode", message: String(code) }] },
  });
const say = (socket: WebSocket, channel: number, text: string | Buffer) =>
  socket.send(Buffer.concat([Buffer.of(channel), Buffer.from(text)]));

test.before.each(async (context) => {
  context.requests = [];
  context.protocol = "v5.channel.k8s.io";
  context.refuse = undefined;
  context.behave = (socket) => say(socket, 3, success);
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(context.protocol) ? context.protocol : false),
  });
  context.server = createServer();
  context.server.on("upgrade", (request: IncomingMessage, connection, head) => {
    context.requests.push(request);
    if (context.refuse !== undefined) {
      const body = JSON.stringify({ kind: "Status", status: "Failure", ...context.refuse.body });
      const length = Buffer.byteLength(body);
      connection.end(`HTTP/1.1 ${context.refuse.status} No\r\ncontent-length: ${length}\r\n\r\n${body}`);
      return;
    }
    sockets.handleUpgrade(request, connection, head, (socket) => context.behave(socket, request));
  });
  await new Promise<void>((resolve) => context.server.listen(0, "127.0.0.1", resolve));
  context.config = { server: `http://127.0.0.1:${(context.server.address() as AddressInfo).port}/below` };
  context.exec = createExec({ config: context.config });
});
test.after.each((context) => {
  context.server.closeAllConnections();
  context.server.close();
});

function failure(work: Promise<unknown>): Promise<Error & { reason?: string; status?: number }> {
  return work.then(
    () => assert.unreachable() as never,
    (error: Error) => error,
  );
}

for (const protocol of ["v5.channel.k8s.io", "v4.channel.k8s.io"]) {
  test(`runs a command over ${protocol}`, async (context) => {
    context.protocol = protocol;
    context.behave = (socket) => {
      socket.on("message", (message: Buffer) => {
        assert.is(message[0], 0);
        say(socket, 1, `got ${message.subarray(1)}`);
        say(socket, 2, "careful");
        say(socket, 3, exited(3));
      });
    };
    let output = "";
    const stdout = new Writable({
      write(chunk, _encoding, callback) {
        output += chunk;
        callback();
      },
    });
    const stdin = Readable.from([Buffer.from("this")], { objectMode: false });
    const result = await context.exec({ ...target, stdin, stdout });
    assert.equal(result, { exitCode: 3, stderr: "careful" });
    assert.is(output, "got this");
    assert.not.ok(stdout.destroyed || stdout.writableEnded, "the output is the caller's to end");
    const url = "/below/api/v1/namespaces/n/pods/p/exec?container=c&stdin=true&stdout=true&stderr=true&tty=false";
    assert.is(context.requests[0]?.url, `${url}&command=do&command=a%20b%26c`);
  });
}

const refusals: [string, number, object, string, string | undefined][] = [
  ["no such pod", 404, { reason: "NotFound", message: 'pods "p" not found' }, "ExecError", "PodGone"],
  ["no such container", 400, { message: "container c is not valid for pod p" }, "ExecError", "ContainerNotRunning"],
  [
    "a container that waits",
    500,
    { message: 'unable to upgrade connection: container not found ("c")' },
    "ExecError",
    "ContainerNotRunning",
  ],
  ["no rights", 403, { reason: "Forbidden", message: "pods is forbidden" }, "ApiError", "Forbidden"],
  ["a bad key", 401, { reason: "Unauthorized", message: "Unauthorized" }, "ApiError", "Unauthorized"],
];
for (const [what, status, body, name, reason] of refusals) {
  test(`tells ${what} from other refusals`, async (context) => {
    context.refuse = { status, body };
    const error = await failure(context.exec(target));
    assert.equal([error.name, error.reason], [name, reason]);
  });
}

test("tells a program that is not there from one that fails", async (context) => {
  const missing = 'OCI runtime exec failed: exec failed: "do": executable file not found in $PATH: unknown';
  context.behave = (socket) =>
    say(socket, 3, JSON.stringify({ status: "Failure", reason: "InternalError", message: missing }));
  assert.is((await failure(context.exec(target))).reason, "CommandNotFound");
  context.behave = (socket) => say(socket, 3, exited(127));
  assert.is((await context.exec(target)).exitCode, 127);
});

test("reads its token again when the server refuses it", async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-exec-"));
  const tokenFile = join(folder, "token");
  writeFileSync(tokenFile, "old");
  const exec = createExec({ config: { ...context.config, tokenFile } });
  await exec(target);
  writeFileSync(tokenFile, "new");
  context.refuse = { status: 401, body: { reason: "Unauthorized" } };
  context.server.once("upgrade", () => (context.refuse = undefined));
  await exec(target);
  assert.equal(
    context.requests.map(({ headers }) => headers.authorization),
    ["Bearer old", "Bearer old", "Bearer new"],
  );
  rmSync(folder, { recursive: true });
});

test("fails when the connection ends before the command", async (context) => {
  context.behave = (socket) => socket.close(1011, "trouble");
  const closed = await failure(context.exec(target));
  assert.is(closed.name, "NetworkError");
  assert.match(closed.message, /closed with 1011 \(trouble\)/);
  context.behave = (socket) => socket.terminate();
  assert.is((await failure(context.exec(target))).name, "NetworkError");
  context.server.close();
  context.server.closeAllConnections();
  assert.is((await failure(context.exec(target))).name, "NetworkError");
});

test("ends at once when it is aborted, when its time is over, and after a silence", async (context) => {
  context.behave = () => undefined;
  const stop = new AbortController();
  const stdin = new Readable({ read: () => undefined });
  const aborted = failure(context.exec({ ...target, stdin, signal: stop.signal }));
  setTimeout(() => stop.abort(new RangeError("enough")), 50);
  assert.is((await aborted).message, "enough");
  assert.ok(stdin.destroyed);
  assert.is(
    (await failure(context.exec({ ...target, signal: AbortSignal.abort(new RangeError("never")) }))).message,
    "never",
  );
  assert.match((await failure(context.exec({ ...target, timeoutMs: 50 }))).message, /not done within 50 ms/);
  assert.match((await failure(context.exec({ ...target, maxSilenceMs: 200 }))).message, /no output for/);
});

test("fails when the command sends a byte at a time, or takes one, and says so", async (context) => {
  const pace = { bytesPerSecond: 64 * 1024, overMs: 500 };
  context.behave = (socket) => {
    const timer = setInterval(() => say(socket, 1, "x"), 5);
    socket.on("close", () => clearInterval(timer));
  };
  const sends = await failure(context.exec({ ...target, minOutput: pace }));
  assert.match(sends.message, /it has sent less than 64 KiB\/s for 0.5 s/);
  context.behave = (socket) => socket.pause();
  const stdin = Readable.from(
    (function* () {
      for (;;) yield Buffer.alloc(64 * 1024);
    })(),
    { objectMode: false },
  );
  const takes = await failure(context.exec({ ...target, stdin, minInput: pace }));
  assert.match(takes.message, /it has taken less than 64 KiB\/s for 0.5 s/);
});

test("waits for a command that waits for its input, and for no longer", async (context) => {
  const pace = { bytesPerSecond: 64 * 1024, overMs: 200 };
  let waits = true;
  context.behave = (socket) => say(socket, 1, "x");
  const silent = failure(context.exec({ ...target, maxSilenceMs: 200, minOutput: pace, isWaiting: () => waits }));
  assert.is(await Promise.race([silent, pause(1000)]), undefined);
  waits = false;
  assert.match((await silent).message, /no output for|it has sent less than/);
});

test("fails as its input or its output does", async (context) => {
  context.behave = (socket) => say(socket, 1, "output");
  const stdout = new Writable({ write: (_chunk, _encoding, callback) => callback(new RangeError("disk full")) });
  assert.is((await failure(context.exec({ ...target, stdout }))).message, "disk full");
  const stdin = new Readable({ read: () => stdin.destroy(new RangeError("source gone")) });
  assert.is((await failure(context.exec({ ...target, stdin }))).message, "source gone");
});

test("reads no faster than its output is taken", async (context) => {
  const total = 64 * 1024 * 1024;
  let sent = 0;
  context.behave = (socket) => {
    const piece = Buffer.alloc(32 * 1024, 1);
    const more = (): void => {
      sent += piece.length;
      if (sent > total) say(socket, 3, success);
      else socket.send(piece, more);
    };
    more();
  };
  let taken = 0;
  let furthest = 0;
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      taken += chunk.length;
      furthest = Math.max(furthest, sent - taken);
      if (taken < 4_000_000) setTimeout(callback, 1);
      else callback();
    },
  });
  await context.exec({ ...target, stdout, timeoutMs: 120_000 });
  assert.ok(taken > total - 32 * 1024 && taken < total);
  // What the kernel holds between two ends on one machine is part of it.
  assert.ok(furthest < 16 * 1024 * 1024, `${furthest} bytes waited`);
});

test("sends no faster than the server takes it", async (context) => {
  let received = 0;
  context.behave = (socket) => {
    socket.pause();
    setTimeout(() => socket.resume(), 300);
    socket.on("message", (message: Buffer) => {
      received += message.length - 1;
      if (received === 64 * 1024 * 1024) say(socket, 3, success);
    });
  };
  let made = 0;
  let furthest = 0;
  const stdin = Readable.from(
    (function* () {
      const piece = Buffer.alloc(256 * 1024, 1);
      while (made < 64 * 1024 * 1024) {
        made += piece.length;
        furthest = Math.max(furthest, made - received);
        yield piece;
      }
    })(),
    { objectMode: false },
  );
  await context.exec({ ...target, stdin, timeoutMs: 120_000 });
  assert.is(received, 64 * 1024 * 1024);
  assert.ok(furthest < 16 * 1024 * 1024, `${furthest} bytes waited`);
});

test.run();
