// @runtimes bun node deno
import { execFile } from "node:child_process";
import type { Socket } from "node:net";
import { promisify } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createDeferred } from "../../../crds/waits.ts";
import { readOpenFilesLimit } from "../../../edge/proxy/open-files.ts";
import { eventually } from "../../eventually.ts";
import { openWire, type Wire } from "../edge/open-wire.ts";
import { manualClock } from "../manual-clock.ts";
import { answerWith, startPod } from "./fake-pod.ts";
import { get as fromDoor, startDoor } from "./front-door.ts";
import { closeAfter, closeAll, startProxy } from "./start-proxy.ts";

const test = suite("the proxy's limits");
test.after.each(closeAll);

const get = "GET /p HTTP/1.1\r\nHost: a\r\n\r\n";
const limits = { headMs: 10_000, idleMs: 30_000, firstByteMs: 60_000, silentMs: 120_000, lingerMs: 1000 };

function wireTo({ url }: { url: string }, text = ""): Wire {
  const wire = openWire(url, text);
  closeAfter(async () => wire.socket.destroy());
  return wire;
}

test("a head that does not arrive is a 408", async () => {
  const clock = manualClock();
  const pod = await startPod();
  const proxy = await startProxy({ pod: pod.target, limits, clock });
  const wire = wireTo(proxy, "GET /p HTTP/1.1\r\n");
  await eventually(() => proxy.openConnections().clients === 1 && clock.pending() > 0);
  // Each byte must not start the time anew.
  await new Promise((resolve) => setTimeout(resolve, 50));
  await clock.pass(8000);
  wire.socket.write("H");
  await new Promise((resolve) => setTimeout(resolve, 50));
  await clock.pass(4000);
  await wire.seen("HTTP/1.1 408 ");
  await wire.closed;
});

test("a connection without a request is closed without a word", async () => {
  const clock = manualClock();
  const pod = await startPod();
  const proxy = await startProxy({ pod: pod.target, limits, clock });
  const silent = wireTo(proxy);
  const used = wireTo(proxy, get);
  await used.seen("ok");
  await eventually(() => proxy.openConnections().clients === 2);
  await clock.pass(32_000);
  await silent.closed;
  await used.closed;
  assert.is(silent.received(), "");
  assert.is(used.received().split("HTTP/1.1").length, 2);
});

test("a pod that does not answer is a 504, however slowly its client sends", async () => {
  const clock = manualClock();
  const pod = await startPod(() => undefined);
  const proxy = await startProxy({ pod: pod.target, limits, clock });
  const wire = wireTo(proxy, "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n");
  await eventually(() => pod.received() !== "");
  await clock.pass(50_000);
  wire.socket.write("a");
  await eventually(() => pod.received().endsWith("a"));
  await clock.pass(50_000);
  assert.is(wire.received(), "", "what is sent shows that the request goes on");
  wire.socket.write("b");
  await eventually(() => pod.received().endsWith("b"));
  await clock.pass(62_000);
  await wire.seen('{"error":"the pod did not respond within 60 s"}');
  assert.match(wire.received(), /^HTTP\/1.1 504 /);
  assert.is(proxy.ends[0]?.status, 504);
});

test("a response that falls silent is cut, one that says something is not", async () => {
  const clock = manualClock();
  const pod = await startPod(answerWith("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"));
  const proxy = await startProxy({ pod: pod.target, limits, clock });
  const wire = wireTo(proxy, get);
  await wire.seen("\r\n\r\n");
  await clock.pass(100_000);
  pod.connections[0]?.write("abc");
  await wire.seen("abc");
  await clock.pass(100_000);
  assert.is(proxy.ends.length, 0);
  await clock.pass(22_000);
  await wire.closed;
  assert.equal(proxy.ends, [{ status: 200, received: 0, sent: 3, isComplete: false }]);
});

test("connections beyond the bound are a 503 where all have a request", async () => {
  const pod = await startPod(() => undefined);
  const proxy = await startProxy({ pod: pod.target, limits: { connections: 1 } });
  const first = wireTo(proxy, get);
  await eventually(() => pod.received() !== "");
  const second = wireTo(proxy, get);
  await second.seen("too many connections");
  await second.closed;
  assert.match(second.received(), /^HTTP\/1.1 503 [\s\S]*\r\nRetry-After: 1\r\n/);
  first.socket.destroy();
  await eventually(() => proxy.openConnections().clients === 0);
  wireTo(proxy, get);
  await eventually(() => pod.connections.length === 2);
});

test("a new connection takes the place of the one that has waited longest without a request", async () => {
  const pod = await startPod();
  const proxy = await startProxy({ pod: pod.target, limits: { connections: 3 } });
  const open = async (text = ""): Promise<Wire> => {
    const before = proxy.openConnections().clients;
    const wire = wireTo(proxy, text);
    await eventually(() => proxy.openConnections().clients === before + 1);
    return wire;
  };
  const used = await open();
  const silent = await open();
  const slow = await open("GET /p HTT");
  used.socket.write(get);
  await used.seen("ok");
  await wireTo(proxy, get).seen("ok");
  await silent.closed;
  await wireTo(proxy, get).seen("ok");
  await slow.closed;
  used.socket.write(get);
  await eventually(() => used.received().split("HTTP/1.1 200").length === 3);
});

/** Waits until nothing more comes for a while. */
async function settled(count: () => number): Promise<number> {
  for (let last = -1; last !== count(); ) {
    last = count();
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return count();
}

test("requests sent ahead wait for who does not read the answers", async () => {
  const answers = 1500;
  const body = "x".repeat(20_000);
  let requests = 0;
  const pod = await startPod(({ socket, text, done }) => {
    if (!text.includes("\r\n\r\n")) return;
    done();
    requests += 1;
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  });
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy);
  wire.socket.pause();
  wire.socket.write(get.repeat(answers));
  await eventually(() => requests > 0);
  assert.ok((await settled(() => requests)) < answers, `${requests} of ${answers} were answered`);
  wire.socket.resume();
  await eventually(() => requests === answers);
  await eventually(() => wire.received().length > answers * body.length);
});

test("requests sent ahead are left to the system where they are many", async () => {
  const pod = await startPod();
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy);
  const piece = Buffer.from(get.repeat(3000));
  let sent = 0;
  const send = (): void => {
    for (let more = true; more && sent < 300; sent += 1) more = wire.socket.write(piece);
  };
  wire.socket.on("drain", send);
  wire.socket.pause();
  send();
  assert.ok((await settled(() => sent)) < 300, "all were read");
});

test("a large request that is sent ahead goes on once the one before is answered", async () => {
  let asked: Socket | undefined;
  const pod = await startPod(({ socket, text, done }) => {
    if (text.startsWith("GET ")) {
      done();
      asked = socket;
    } else if (text.endsWith("end")) socket.write("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
  });
  const proxy = await startProxy({ pod: pod.target, forward: { request: { hidesCookies: true } } });
  const wire = wireTo(proxy, get);
  await eventually(() => asked !== undefined);
  // More than is read ahead, though not of what the pod is sent: the exchange has no cause to pause and resume.
  const head = `POST /p HTTP/1.1\r\nHost: a\r\nCookie: ${"c".repeat(30_000)}\r\nContent-Length: 300003\r\n\r\n`;
  wire.socket.write(head + "x".repeat(50_000));
  await settled(() => wire.socket.writableLength);
  asked?.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await wire.seen("ok");
  wire.socket.write(`${"x".repeat(250_000)}end`);
  await eventually(() => wire.received().includes("HTTP/1.1 201 "));
});

test("a client may take its time for the end of a response, also where the connection ends with it", async () => {
  const clock = manualClock();
  const pod = await startPod(({ socket, text, done }) => {
    if (!text.includes("\r\n\r\n")) return;
    done();
    const bytes = Number(/^GET \/(\d+)/.exec(text)?.[1]);
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n${"x".repeat(bytes)}`);
  });
  const proxy = await startProxy({ pod: pod.target, limits, clock });
  const ask = (bytes: number): Wire => {
    const wire = wireTo(proxy);
    wire.socket.pause();
    wire.socket.write(`GET /${bytes} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    return wire;
  };
  // As much as goes out to a client that does not read, with what the proxy itself has yet to write.
  const first = ask(50_000_000);
  await settled(() => pod.connections[0]?.bytesWritten ?? 0);
  first.socket.destroy();
  await eventually(() => proxy.ends.length === 1);
  const bytes = proxy.ends[0]?.sent ?? 0;
  const second = ask(bytes);
  await settled(() => pod.connections[1]?.bytesWritten ?? 0);
  await clock.pass(60_000);
  second.socket.resume();
  await second.closed;
  assert.is(second.received().split("\r\n\r\n")[1]?.length, bytes);
});

test("of those who make the proxy keep too much, the one that has done so for the longest is cut", async () => {
  const bytes = 20_000_000;
  const pod = await startPod(({ socket, text, done }) => {
    if (!text.includes("\r\n\r\n")) return;
    done();
    const length = text.startsWith("GET /big") ? bytes : 2;
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n${"x".repeat(length)}`);
  });
  const proxy = await startProxy({ pod: pod.target, limits: { heldBytes: 40_000 } });
  const started = wireTo(proxy, `GET /p HTTP/1.1\r\nHost: a\r\nX: ${"a".repeat(20_000)}`);
  await eventually(() => proxy.openConnections().clients === 1);
  const unread = wireTo(proxy, get.replace("/p", "/big"));
  unread.socket.pause();
  await started.closed;
  await eventually(() => proxy.ends.length === 1);
  assert.is(proxy.ends[0]?.isComplete, false);
  await wireTo(proxy, get).seen("xx");
});

for (const [what, start, rest] of [
  ["a head without its end", `HTTP/1.1 200 OK\r\nX: ${"a".repeat(25_000)}`, "\r\nContent-Length: 4\r\n\r\naaaa"],
  ["an answer that is held back", `HTTP/1.1 200 OK\r\nContent-Length: 25000\r\n\r\n${"a".repeat(25_000)}`, ""],
] as const) {
  test(`what a pod has sent and the proxy keeps counts too: ${what}`, async () => {
    const pod = await startPod(answerWith(start));
    const kept = createDeferred<void>();
    const forward = { untilKept: () => kept.promise };
    const proxy = await startProxy({ pod: pod.target, forward, limits: { heldBytes: 40_000 } });
    const first = wireTo(proxy, get);
    await eventually(() => proxy.openConnections().pods === 1);
    const second = wireTo(proxy, get);
    await eventually(() => first.socket.destroyed);
    assert.is(second.socket.destroyed, false);
    pod.connections[1]?.write(rest);
    kept.resolve();
    await second.seen("aaaa");
  });
}

test("a pod that does not end the head of its response in time is a 504, however often it sends something", async () => {
  const clock = manualClock();
  const pod = await startPod(answerWith("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200"));
  const proxy = await startProxy({ pod: pod.target, limits, clock });
  const wire = wireTo(proxy, get);
  await wire.seen("103");
  await clock.pass(8000);
  pod.connections[0]?.write(" OK\r\n");
  // Each byte must not start the time anew.
  await new Promise((resolve) => setTimeout(resolve, 50));
  await clock.pass(4000);
  await wire.seen('{"error":"the pod has not sent the complete head of its response within 10 s"}');
  assert.is(proxy.ends[0]?.status, 504);
});

test("readOpenFilesLimit: what this process may have, and nothing where no system tells", async () => {
  const { stdout } = await promisify(execFile)("grep", ["Max open files", `/proc/${process.pid}/limits`]);
  assert.is(await readOpenFilesLimit(), Number(stdout.trim().split(/ +/)[3]));
  assert.is(await readOpenFilesLimit("/proc/self/nothing"), undefined);
});

test("connections that the open files do not suffice for are not taken, which a warning says", async () => {
  const door = await startDoor({ openFiles: 261, config: { connections: 3 } });
  assert.equal(door.warned, [
    {
      openFiles: 261,
      connections: 2,
      problem:
        "TENANCY_PROXY_CONNECTIONS is 3, which needs more than 261 open files: raise the limit (ulimit -Hn, LimitNOFILE) to 262, or lower the setting",
    },
  ]);
  const first = door.wire(fromDoor("x.apps.test"));
  await first.seen("404");
  await door.wire(fromDoor("x.apps.test")).seen("404");
  await door.wire(fromDoor("x.apps.test")).seen("404");
  await first.closed;
  const enough = await startDoor({ openFiles: 262, config: { connections: 3 } });
  assert.equal(enough.warned, []);
});

test("a kept connection to a pod is closed after a second", async () => {
  const clock = manualClock();
  const pod = await startPod();
  const proxy = await startProxy({ pod: pod.target, limits, clock });
  const wire = wireTo(proxy, get);
  await wire.seen("ok");
  await eventually(() => proxy.openConnections().pods === 1);
  await clock.pass(1500);
  await eventually(() => proxy.openConnections().pods === 0);
});

test("a pod that accepts no connection in time is a 502", async () => {
  const clock = manualClock();
  // An address of the range for documentation, which nothing answers.
  const pod = { uid: "pod-1", host: "192.0.2.1", port: 80, confirm: async () => true };
  const proxy = await startProxy({ pod, limits: { ...limits, connectMs: 5000 }, clock });
  const wire = wireTo(proxy, get);
  // In small steps, so that the request is there long before its head would be late.
  await eventually(async () => {
    await clock.pass(100);
    return wire.received() !== "";
  });
  await wire.seen("HTTP/1.1 502 ");
});

test.run();
