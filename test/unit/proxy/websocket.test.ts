// @runtimes bun node deno
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { WebSocket, WebSocketServer } from "ws";
import { errorAnswer, type LocalAnswer } from "../../../edge/proxy/http/local-answer.ts";
import type { PodTarget } from "../../../edge/proxy/pod-connections.ts";
import { eventually } from "../../eventually.ts";
import { openWire, type Wire } from "../edge/open-wire.ts";
import { manualClock } from "../manual-clock.ts";
import { answerWith, startPod } from "./fake-pod.ts";
import { closeAfter, closeAll, startProxy } from "./start-proxy.ts";

const test = suite("WebSockets through the proxy");
test.after.each(closeAll);

const handshake = [
  "GET /ws HTTP/1.1",
  "Host: a",
  "Connection: keep-alive, Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  "Sec-WebSocket-Version: 13",
  "",
  "",
].join("\r\n");
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-A: 1\r\n\r\n";

function wireTo({ url }: { url: string }, text: string): Wire {
  const wire = openWire(url, text);
  closeAfter(async () => wire.socket.destroy());
  return wire;
}

/** A pod that speaks WebSocket by the library: what it chose and saw is what a real one would. */
async function startSocketPod(): Promise<{ target: PodTarget; server: WebSocketServer; seen: IncomingMessage[] }> {
  const http = createServer();
  const seen: IncomingMessage[] = [];
  const server = new WebSocketServer({
    server: http,
    perMessageDeflate: { threshold: 0 },
    handleProtocols: (offered) => offered.has("second") && "second",
  });
  server.on("connection", (socket, request) => {
    seen.push(request);
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  http.listen(0, "127.0.0.1");
  await new Promise((resolve) => http.once("listening", resolve));
  closeAfter(async () => {
    for (const client of server.clients) client.terminate();
    http.closeAllConnections?.();
    await new Promise((resolve) => http.close(resolve));
  });
  const { port } = http.address() as AddressInfo;
  return { target: { uid: "pod-1", host: "127.0.0.1", port, confirm: async () => true }, server, seen };
}

test("text, bytes, a megabyte, compression and a subprotocol go through", async () => {
  const pod = await startSocketPod();
  const proxy = await startProxy({ pod: pod.target });
  const socket = new WebSocket(proxy.url.replace("http", "ws"), ["first", "second"], { perMessageDeflate: true });
  const messages: Buffer[] = [];
  socket.on("message", (data: Buffer) => messages.push(data));
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  assert.is(socket.protocol, "second");
  assert.match(socket.extensions, /permessage-deflate/);
  const large = Buffer.alloc(1024 * 1024, "z");
  socket.send("text");
  socket.send(Buffer.from([0, 255]));
  socket.send(large);
  await eventually(() => messages.length === 3);
  assert.is(String(messages[0]), "text");
  assert.equal([...(messages[1] ?? [])], [0, 255]);
  assert.ok(large.equals(messages[2] as Buffer));
  assert.is(pod.seen[0]?.headers["x-forwarded-for"], "127.0.0.1");
  socket.terminate();
});

test("a ping is answered by the other side, and the close code arrives", async () => {
  const pod = await startSocketPod();
  const proxy = await startProxy({ pod: pod.target });
  const socket = new WebSocket(proxy.url.replace("http", "ws"));
  await new Promise((resolve) => socket.once("open", resolve));
  const pong = new Promise<Buffer>((resolve) => socket.once("pong", resolve));
  socket.ping("hello");
  assert.is(String(await pong), "hello");
  const closed = new Promise((resolve) => socket.once("close", (code, reason) => resolve([code, String(reason)])));
  for (const client of pod.server.clients) client.close(4321, "enough");
  assert.equal(await closed, [4321, "enough"]);
  await eventually(() => proxy.openConnections().clients === 0 && proxy.openConnections().pods === 0);
  assert.is(proxy.ends[0]?.status, 101);
});

test("after 101 bytes go both ways as they are, also those that came with a head", async () => {
  const pod = await startPod(({ socket, text, done }) => {
    if (text.startsWith("GET") && text.includes("\r\n\r\n")) socket.write(`${switched}\x81\x02hi`, "latin1");
    else socket.write(`<${text}>`, "latin1");
    done();
  });
  let traffic = 0;
  const onTraffic = (): void => {
    traffic += 1;
  };
  const proxy = await startProxy({ pod: pod.target, forward: { onTraffic } });
  const wire = wireTo(proxy, handshake);
  await wire.seen("\x81\x02hi");
  assert.match(
    wire.received(),
    /^HTTP\/1.1 101 Switching Protocols\r\nX-A: 1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n/,
  );
  assert.match(pod.received(), /\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n/);
  wire.socket.write("PUT /p HTTP/1.1\r\n\r\n");
  await wire.seen("<PUT /p HTTP/1.1\r\n\r\n>");
  assert.ok(traffic >= 3);
  wire.socket.end();
  await eventually(() => proxy.ends.length === 1);
  assert.equal(proxy.ends[0]?.status, 101);
});

test("what a client sends before 101 is not sent to the pod before that", async () => {
  const pod = await startPod(() => undefined);
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, `${handshake}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`);
  await eventually(() => pod.received().endsWith("\r\n\r\n"));
  assert.not.match(pod.received(), /smuggled/);
  pod.connections[0]?.write(switched);
  await eventually(() => pod.received().includes("smuggled"));
  wire.socket.destroy();
});

test("a handshake that the pod refuses leaves an ordinary connection", async () => {
  const pod = await startPod(answerWith("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno"));
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, `${handshake}GET /next HTTP/1.1\r\nHost: a\r\n\r\n`);
  await eventually(() => wire.received().split("HTTP/1.1 426").length === 3);
  assert.match(pod.received(), /GET \/next HTTP\/1.1\r\nHost: a\r\nX-Forwarded-For/);
  assert.is(pod.connections.length, 2, "the second is parsed and routed as a request of its own");
});

test("a pod cannot have a connection switched that did not ask for it", async () => {
  const pod = await startPod(answerWith(switched));
  const proxy = await startProxy({ pod: pod.target });
  for (const fields of ["", "Upgrade: websocket\r\n", "Connection: upgrade\r\nUpgrade: h2c\r\n"]) {
    const wire = wireTo(proxy, `GET /ws HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
    await wire.seen("HTTP/1.1 502 ");
  }
});

test("the end of either side ends the other", async () => {
  const pod = await startPod(answerWith(switched));
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, handshake);
  await wire.seen("101");
  pod.connections[0]?.end("\x88\x00");
  await wire.closed;
  assert.ok(wire.received().endsWith("\x88\x00"));
  const other = wireTo(proxy, handshake);
  await other.seen("101");
  const closed = new Promise((resolve) => pod.connections[1]?.once("close", resolve));
  other.socket.destroy();
  await closed;
  await eventually(() => proxy.openConnections().pods === 0);
});

/** Resolves with the code that a WebSocket was closed with. */
function closeCode(socket: WebSocket): Promise<number> {
  return new Promise((resolve) => socket.once("close", resolve));
}

test("whoever started a WebSocket can end it, and both sides are told why", async () => {
  const pod = await startSocketPod();
  let stop: ((answer: LocalAnswer) => void) | undefined;
  const onStart = (given: (answer: LocalAnswer) => void): void => {
    stop = given;
  };
  const proxy = await startProxy({ pod: pod.target, forward: { onStart } });
  const socket = new WebSocket(proxy.url.replace("http", "ws"));
  socket.on("error", () => undefined);
  await new Promise((resolve) => socket.once("open", resolve));
  await eventually(() => pod.server.clients.size === 1);
  const [atPod] = pod.server.clients;
  const codes = Promise.all([closeCode(socket), closeCode(atPod as WebSocket)]);
  stop?.(errorAnswer(503, "the instance is being released"));
  assert.equal(await codes, [1001, 1001]);
  await eventually(() => proxy.openConnections().clients === 0 && proxy.openConnections().pods === 0);
  assert.equal(proxy.ends.length, 1);
});

test("a proxy that leaves serves on, each answer is its connection's last, and WebSockets stay open", async () => {
  const pod = await startSocketPod();
  const web = await startPod();
  const proxy = await startProxy({ pod: pod.target });
  const plain = await startProxy({ pod: web.target });
  const open = new WebSocket(proxy.url.replace("http", "ws"));
  const wire = wireTo(plain, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await Promise.all([wire.seen("ok"), new Promise((resolve) => open.once("open", resolve))]);
  proxy.leave();
  plain.leave();
  wire.socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const late = wireTo(plain, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  for (const left of [wire, late]) {
    await left.closed;
    assert.is(left.received().split(/connection: close/i).length, 2);
    assert.ok(left.received().endsWith("ok"));
  }
  const second = new WebSocket(proxy.url.replace("http", "ws"));
  await new Promise((resolve) => second.once("open", resolve));
  assert.is(open.readyState, WebSocket.OPEN);
  const codes = Promise.all([closeCode(open), closeCode(second)]);
  assert.ok(await proxy.stop({ graceMs: 60_000 }));
  assert.equal(await codes, [1012, 1012]);
});

test("at the proxy's stop clients are told to come back, at once", async () => {
  const pod = await startSocketPod();
  const proxy = await startProxy({ pod: pod.target });
  const socket = new WebSocket(proxy.url.replace("http", "ws"));
  socket.on("error", () => undefined);
  await new Promise((resolve) => socket.once("open", resolve));
  const code = closeCode(socket);
  assert.ok(await proxy.stop({ graceMs: 60_000 }), "nothing had to be cut off");
  assert.is(await code, 1012);
});

test("at the proxy's stop what is in the middle of a frame goes on to its end", async () => {
  const pod = await startPod(answerWith(switched));
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, handshake);
  await wire.seen("101");
  pod.connections[0]?.write("\x81\x05ab", "latin1");
  await wire.seen("\x81\x05ab");
  const stopped = proxy.stop({ graceMs: 60_000 });
  pod.connections[0]?.write("cde\x81", "latin1");
  await wire.seen("\x81\x05abcde\x81");
  pod.connections[0]?.write("\x01f", "latin1");
  assert.ok(await stopped);
  assert.ok(wire.received().endsWith("\x81\x05abcde\x81\x01f\x88\x02\x03\xf4"));
});

test("a handshake that is answered during the stop is closed too", async () => {
  const pod = await startPod(() => undefined);
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, handshake);
  await eventually(() => pod.received().endsWith("\r\n\r\n"));
  const stopped = proxy.stop({ graceMs: 60_000 });
  pod.connections[0]?.write(switched, "latin1");
  assert.ok(await stopped);
  assert.ok(wire.received().endsWith("\r\n\r\n\x88\x02\x03\xf4"));
});

for (const [side, cut] of [
  ["the pod's", Buffer.from("\x81\x05ab", "latin1")],
  ["the client's", Buffer.from("\x81\x82\0\0\0\0a", "latin1")],
] as const) {
  test(`in the middle of ${side} frame its reader is cut off, and the other is told`, async () => {
    const pod = await startPod(answerWith(switched));
    let stop: ((answer: LocalAnswer) => void) | undefined;
    const onStart = (given: (answer: LocalAnswer) => void): void => {
      stop = given;
    };
    const proxy = await startProxy({ pod: pod.target, forward: { onStart } });
    const wire = wireTo(proxy, handshake);
    await wire.seen("101");
    const atPod = pod.connections[0] as Socket;
    const podClosed = new Promise((resolve) => atPod.once("close", resolve));
    const before = pod.received().length;
    if (side === "the pod's") {
      atPod.write(cut);
      await wire.seen(cut.toString("latin1"));
    } else {
      wire.socket.write(cut);
      await eventually(() => pod.received().length === before + cut.length);
    }
    stop?.(errorAnswer(503, "the instance is being released"));
    await wire.closed;
    await podClosed;
    const toPod = pod.received().slice(before);
    if (side === "the pod's") {
      assert.ok(wire.received().endsWith(cut.toString("latin1")));
      assert.is(toPod.slice(0, 2), "\x88\x82");
      assert.is(toPod.length, 8);
    } else {
      assert.ok(wire.received().endsWith("\r\n\r\n\x88\x02\x03\xe9"));
      assert.is(toPod, cut.toString("latin1"));
    }
  });
}

test("a pod that does not close after a close frame is left", async () => {
  const clock = manualClock();
  const sockets: Socket[] = [];
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined).resume();
    socket.write(switched);
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  closeAfter(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  const target: PodTarget = { uid: "pod-1", host: "127.0.0.1", port, confirm: async () => true };
  const proxy = await startProxy({ pod: target, clock });
  const wire = wireTo(proxy, handshake);
  await wire.seen("101");
  wire.socket.destroy();
  await eventually(() => proxy.ends.length === 1);
  assert.is(proxy.openConnections().pods, 1);
  await clock.pass(3000);
  await eventually(() => proxy.openConnections().pods === 0);
});

test("pings and pongs are no traffic, data is", async () => {
  const pod = await startSocketPod();
  let traffic = 0;
  const onTraffic = (): void => {
    traffic += 1;
  };
  const proxy = await startProxy({ pod: pod.target, forward: { onTraffic } });
  const socket = new WebSocket(proxy.url.replace("http", "ws"));
  await new Promise((resolve) => socket.once("open", resolve));
  await eventually(() => pod.server.clients.size === 1);
  const pong = new Promise((resolve) => socket.once("pong", resolve));
  socket.ping("hello");
  await pong;
  const [atPod] = pod.server.clients;
  const answered = new Promise((resolve) => atPod?.once("pong", resolve));
  atPod?.ping();
  await answered;
  assert.is(traffic, 0);
  const echoed = new Promise((resolve) => socket.once("message", resolve));
  socket.send("a");
  await echoed;
  assert.is(traffic, 2);
  socket.terminate();
});

test("a side that does not read slows the other down", async () => {
  const size = 60 * 1024 * 1024;
  const pod = await startPod(answerWith(switched));
  const proxy = await startProxy({ pod: pod.target });
  for (const reader of ["pod", "client"]) {
    const wire = wireTo(proxy, handshake);
    await wire.seen("101");
    const connection = pod.connections.at(-1) as Socket;
    const [to, from] = reader === "pod" ? [connection, wire.socket] : [wire.socket, connection];
    to.removeAllListeners("data");
    to.pause();
    let flushed = false;
    from.write(Buffer.alloc(size), () => {
      flushed = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.is(flushed, false, `the ${reader} does not read`);
    let read = 0;
    to.on("data", (chunk: Buffer) => {
      read += chunk.length;
    });
    to.resume();
    await eventually(() => flushed && read >= size);
  }
});

test.run();
