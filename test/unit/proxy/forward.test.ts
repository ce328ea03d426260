// @runtimes bun node deno
// @waits
import { connect, type Socket } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { AnswerError } from "../../../edge/proxy/forward.ts";
import { hostOnlyCookie } from "../../../edge/proxy/http/forward-head.ts";
import { errorAnswer, type LocalAnswer } from "../../../edge/proxy/http/local-answer.ts";
import { eventually } from "../../eventually.ts";
import { openWire, type Wire } from "../edge/open-wire.ts";
import { manualClock } from "../manual-clock.ts";
import { answerWith, startPod } from "./fake-pod.ts";
import { closeAfter, closeAll, startProxy } from "./start-proxy.ts";

const test = suite("forwarding to a pod");
test.after.each(closeAll);

const get = "GET /p HTTP/1.1\r\nHost: a\r\n\r\n";

function wireTo({ url }: { url: string }, text = ""): Wire {
  const wire = openWire(url);
  closeAfter(async () => wire.socket.destroy());
  if (text !== "") wire.socket.write(Buffer.from(text, "latin1"));
  return wire;
}

function ignore(): void {
  // Answered by the test.
}

/** A connection that the pod has by now. */
async function connectionOf(pod: { readonly connections: readonly Socket[] }, index = 0): Promise<Socket> {
  await eventually(() => pod.connections.length > index);
  return pod.connections[index] as Socket;
}

test("the pod gets the request as it came, without what belongs to the connection", async () => {
  const pod = await startPod();
  const proxy = await startProxy({ pod: pod.target });
  const request = [
    "POST /p?q=%20 HTTP/1.1",
    "hOsT: A:80",
    "X-Case: Kept",
    "Cookie: a=1",
    "cookie: b=2",
    "Connection: keep-alive, X-Hop",
    "X-Hop: 1",
    "Keep-Alive: timeout=5",
    "TE: trailers, deflate",
    "Proxy-Authorization: Basic x",
    "Proxy-Connection: close",
    "Accept-Encoding: br",
    "Content-Length: 3",
    "",
    "abc",
  ];
  await wireTo(proxy, request.join("\r\n")).seen("ok");
  assert.equal(pod.received().split("\r\n"), [
    "POST /p?q=%20 HTTP/1.1",
    "hOsT: A:80",
    "X-Case: Kept",
    "Cookie: a=1",
    "cookie: b=2",
    "Accept-Encoding: br",
    "TE: trailers",
    "Connection: te",
    "X-Forwarded-For: 127.0.0.1",
    "X-Forwarded-Proto: http",
    "X-Forwarded-Host: a:80",
    "X-Request-Id: request-1",
    "Content-Length: 3",
    "",
    "abc",
  ]);
});

test("what a client says of its origin does not reach the pod, however it is spelt", async () => {
  const pod = await startPod();
  const proxy = await startProxy({ pod: pod.target });
  const forged = [
    ...["X-Forwarded-For", "x-forwarded-proto", "X_Forwarded_For", "X-FORWARDED_HOST", "X-Forwarded-Anything"],
    ...["Forwarded", "X-Real-IP", "X_Real_IP", "X-Request-Id", "X-Original-URL", "X-Rewrite-URL", "X-Tenancy-Key"],
  ];
  const fields = forged.map((name) => `${name}: forged\r\n`).join("");
  await wireTo(proxy, `GET /p HTTP/1.1\r\nHost: a\r\n${fields}\r\n`).seen("ok");
  assert.not.match(pod.received(), /forged/);
});

test("the proxy's own cookie and key stay here", async () => {
  const pod = await startPod();
  const request = { hiddenCookie: "__Host-tenancy", hidesAuthorization: true };
  const proxy = await startProxy({ pod: pod.target, forward: { request } });
  const cookies = "Cookie: a=1; __Host-tenancy=secret; b=__Host-tenancy\r\nCookie: __Host-tenancy=secret\r\n";
  await wireTo(proxy, `GET /p HTTP/1.1\r\nHost: a\r\n${cookies}Authorization: Bearer secret\r\n\r\n`).seen("ok");
  assert.match(pod.received(), /\r\nCookie: a=1; b=__Host-tenancy\r\n/);
  assert.not.match(pod.received(), /secret/);
});

test("no cookie goes to the pod where the route says so, and fields of its response stay here", async () => {
  const fields = "Alt-Svc: h3\r\nalt-svc: h2\r\nX-Alt-Svc: kept\r\n";
  const pod = await startPod(answerWith(`HTTP/1.1 200 OK\r\n${fields}Content-Length: 2\r\n\r\nok`));
  const changes = { request: { hidesCookies: true }, response: { drops: (name: string) => name === "alt-svc" } };
  const wire = wireTo(await startProxy({ pod: pod.target, forward: changes }));
  wire.socket.write("GET /p HTTP/1.1\r\nHost: a\r\nCookie: a=1\r\ncookie: b=2\r\n\r\n");
  await wire.seen("ok");
  assert.not.match(pod.received(), /cookie/i);
  assert.match(wire.received(), "200 OK\r\nX-Alt-Svc: kept\r\nContent-Length");
});

test("a changed target goes out with its prefix", async () => {
  const pod = await startPod();
  const proxy = await startProxy({
    pod: pod.target,
    forward: { request: { target: "/x?y", prefix: "/t/alice/hello" } },
  });
  await wireTo(proxy, "GET /t/alice/hello/x?y HTTP/1.1\r\nHost: a\r\n\r\n").seen("ok");
  assert.match(pod.received(), /^GET \/x\?y HTTP\/1.1\r\n[\s\S]*\r\nX-Forwarded-Prefix: \/t\/alice\/hello\r\n/);
});

test("the client gets the response as it came: letters, order, lists, reason", async () => {
  const fields = "sEt-CooKie: a=1; Domain=b\r\nX-A: 1\r\nSet-Cookie: b=2\r\nX-A: 2\r\nDate: never\r\nServer: s\r\n";
  const hop = "Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n";
  const pod = await startPod(answerWith(`HTTP/1.1 242 As I Like\r\n${fields}${hop}Content-Length: 2\r\n\r\nok`));
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, get);
  await wire.seen("\r\n\r\nok");
  assert.is(wire.received(), `HTTP/1.1 242 As I Like\r\n${fields}Content-Length: 2\r\n\r\nok`);
});

test("cookies are changed and fields added where the route says so", async () => {
  const fields = "Set-Cookie: a=1; Path=/; DOMAIN=b.test; Secure\r\nSet-Cookie: __host-tenancy=forged\r\n";
  const pod = await startPod(answerWith(`HTTP/1.1 200 OK\r\n${fields}Content-Length: 2\r\n\r\nok`));
  const response = {
    setCookie: (value: string) => hostOnlyCookie(value, "__Host-tenancy"),
    fields: [["Content-Security-Policy", "sandbox"] as const],
  };
  const proxy = await startProxy({ pod: pod.target, forward: { response } });
  const wire = wireTo(proxy, get);
  await wire.seen("\r\n\r\nok");
  assert.match(wire.received(), /\r\nSet-Cookie: a=1; Path=\/; Secure\r\n/);
  assert.not.match(wire.received(), /forged/);
  assert.match(wire.received(), /\r\nContent-Security-Policy: sandbox\r\n/);
});

test("a body in chunks arrives piece by piece, both ways", async () => {
  const pod = await startPod(ignore);
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  await eventually(() => pod.received().endsWith("\r\n\r\n3\r\none\r\n"));
  const connection = await connectionOf(pod);
  connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfirs\r\n");
  await wire.seen("4\r\nfirs\r\n");
  wire.socket.write("3\r\ntwo\r\n");
  await eventually(() => pod.received().endsWith("3\r\ntwo\r\n"));
  connection.write("2\r\nst\r\n");
  await wire.seen("2\r\nst\r\n");
  wire.socket.write("0\r\n\r\n");
  await eventually(() => pod.received().endsWith("\r\n0\r\n\r\n"));
  connection.write("0\r\n\r\n");
  await wire.seen("0\r\n\r\n");
  await eventually(() => proxy.ends.length === 1);
  assert.equal(proxy.ends, [{ status: 200, received: 6, sent: 6, isComplete: true }]);
});

test("chunks are read however they are cut", async () => {
  const pod = await startPod(({ socket, text }) => {
    if (text.endsWith("X-T: v\r\n\r\n")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy);
  const request =
    "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-T: v\r\n\r\n";
  wire.socket.setNoDelay(true);
  for (const byte of request) {
    wire.socket.write(byte);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await wire.seen("ok");
  const body = pod.received().slice(pod.received().indexOf("\r\n\r\n") + 4);
  const data = [...body.matchAll(/([0-9a-f]+)\r\n(\w+)\r\n/g)];
  assert.is(data.map(([, , text]) => text).join(""), "abc0123456789");
  assert.ok(data.every(([, length = "", text]) => Number.parseInt(length, 16) === text?.length));
  assert.match(body, /\r\n0\r\nX-T: v\r\n\r\n$/);
});

test("a trailer is passed on, but for what must not be in one", async () => {
  const trailer = "X-Sum: 1\r\nContent-Length: 5\r\nSet-Cookie: a=1\r\nReferer: /\r\nTransfer-Encoding: x\r\n";
  const pod = await startPod(
    answerWith(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${trailer}\r\n`),
  );
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, get);
  await wire.seen("0\r\n");
  assert.match(wire.received(), /\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n$/);
});

test("a body that ends with the pod's connection reaches the client in chunks", async () => {
  const pod = await startPod(ignore);
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, get);
  const connection = await connectionOf(pod);
  connection.end("HTTP/1.0 200 OK\r\n\r\nall of it");
  await wire.seen("0\r\n\r\n");
  assert.match(wire.received(), /^HTTP\/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nall of it\r\n0\r\n\r\n$/);
});

test("an HTTP/1.0 client gets a body that ends with its connection", async () => {
  const pod = await startPod(
    answerWith("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\nX-T: 1\r\n\r\n"),
  );
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, "POST /p HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi");
  await wire.closed;
  assert.is(wire.received(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok!");
  assert.ok(pod.received().startsWith(`POST /p HTTP/1.1\r\nHost: 127.0.0.1:${pod.target.port}\r\n`), pod.received());
  assert.not.match(pod.received(), /Expect/);
});

test("an HTTP/1.0 client that asks for it keeps its connection where a response has a length", async () => {
  const pod = await startPod(({ socket, text, done }) => {
    if (!text.includes("\r\n\r\n")) return;
    done();
    const inChunks = "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    socket.write(`HTTP/1.1 200 OK\r\n${text.includes("/chunks") ? inChunks : "Content-Length: 2\r\n\r\nok"}`);
  });
  const proxy = await startProxy({ pod: pod.target });
  const ask = (path: string) => `GET ${path} HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n`;
  const wire = wireTo(proxy, ask("/1"));
  const kept = "Connection: keep-alive\r\nContent-Length: 2\r\n\r\nok";
  await wire.seen(kept);
  wire.socket.write(`${ask("/2")}${ask("/chunks")}${ask("/4")}`);
  await wire.closed;
  const answers = wire.received().split("HTTP/1.1 200 OK\r\n").slice(1);
  assert.equal(answers, [kept, kept, "Connection: close\r\n\r\nok"], "the last body ends with the connection");
  const closing = wireTo(proxy, "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n");
  await closing.closed;
  assert.match(closing.received(), "Connection: close");
});

test("an HTTP/1.0 client that names no host, or an empty one, gives the pod the one Host that servers ask for", async () => {
  const pod = await startPod(answerWith("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  const proxy = await startProxy({ pod: pod.target });
  for (const host of ["", "Host:\r\n"]) await wireTo(proxy, `GET /p HTTP/1.0\r\n${host}\r\n`).closed;
  const hosts = [...pod.received().matchAll(/^host:.*$/gim)].map(([line]) => line.trim());
  assert.equal(hosts, Array(2).fill(`Host: 127.0.0.1:${pod.target.port}`));
});

test("a Location at the pod's own port leads to where the client found the pod, and others stay", async () => {
  const pod = await startPod(({ socket, text, done }) => {
    done();
    const place = /^x-place: (.*)\r$/im.exec(text)?.[1];
    socket.write(`HTTP/1.1 302 Found\r\nlocation: ${place}\r\nContent-Length: 2\r\n\r\nok`);
  });
  const { port } = pod.target;
  const own = { response: { ownsHost: true } };
  const cases: [scheme: "http" | "https", host: string, from: string, to: string][] = [
    ["http", "app.test:8081", `http://app.test:${port}/a?b=http://x`, "http://app.test:8081/a?b=http://x"],
    ["http", "App.test:8081", `HTTP://APP.test:${port}`, "http://app.test:8081"],
    ["http", "app.test:8081", "http://app.test/a", "http://app.test:8081/a"],
    ["https", "app.test", `http://app.test:${port}/a`, "https://app.test/a"],
    ["https", "app.test", "http://app.test?a", "https://app.test?a"],
    ["http", "app.test:8081", "http://app.test:8081/a", "http://app.test:8081/a"],
    ["http", "app.test", "https://app.test/a", "https://app.test/a"],
    ["http", "app.test", `http://other.test:${port}/`, `http://other.test:${port}/`],
    ["http", "app.test", `http://app.test:${port}@other.test/`, `http://app.test:${port}@other.test/`],
    ["http", "app.test", `http://app.test:${port}.other.test/`, `http://app.test:${port}.other.test/`],
    ["http", "app.test", `//app.test:${port}/`, `//app.test:${port}/`],
    ["http", "app.test", "/a", "/a"],
  ];
  for (const [scheme, host, from, to] of cases) {
    for (const forward of [own, {}]) {
      const proxy = await startProxy({ pod: pod.target, forward, scheme });
      const wire = wireTo(proxy, `GET /p HTTP/1.1\r\nHost: ${host}\r\nX-Place: ${from}\r\n\r\n`);
      await wire.seen("\r\n\r\nok");
      assert.is(/^location: (.*)\r$/m.exec(wire.received())?.[1], forward === own ? to : from);
    }
  }
});

test("HEAD, 204 and 304 have no body, whatever they say of its length", async () => {
  const heads = [
    "200 OK\r\nContent-Length: 99",
    "200 OK\r\nTransfer-Encoding: chunked",
    "304 Not Modified\r\nContent-Length: 9",
  ];
  for (const head of heads) {
    const pod = await startPod(answerWith(`HTTP/1.1 ${head}\r\n\r\n`));
    const proxy = await startProxy({ pod: pod.target });
    const wire = wireTo(proxy, "HEAD /1 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    await eventually(() => wire.received().split("HTTP/1.1 ").length === 3);
    const length = head.includes("Length") ? head.slice(head.indexOf("\r\n") + 2) : undefined;
    assert.is(wire.received().includes("Content-Length"), length !== undefined);
    if (length !== undefined) assert.ok(wire.received().includes(`${length}\r\n\r\n`));
    assert.is(pod.connections.length, 1);
  }
  const pod = await startPod(answerWith("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"));
  const wire = wireTo(await startProxy({ pod: pod.target }), get);
  await wire.seen("\r\n\r\n");
  assert.is(wire.received(), "HTTP/1.1 204 No Content\r\n\r\n");
});

test("requests that are sent ahead are answered in their order, over one connection to the pod", async () => {
  const pod = await startPod(({ socket, text, done }) => {
    const [, path] = /^GET (\S+)/.exec(text) ?? [];
    if (!text.includes("\r\n\r\n")) return;
    done();
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[${path}]`);
  });
  const proxy = await startProxy({ pod: pod.target });
  const paths = Array.from({ length: 9 }, (_, index) => `/${index + 1}`);
  const wire = wireTo(proxy, paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(""));
  await wire.seen("[/9]");
  assert.equal(
    wire.received().match(/\[\/\d\]/g),
    paths.map((path) => `[${path}]`),
  );
  assert.is(pod.connections.length, 1);
});

test("Connection: close ends the client's connection after the answer", async () => {
  const pod = await startPod();
  const wire = wireTo(await startProxy({ pod: pod.target }), "GET /p HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  await wire.closed;
  assert.is(wire.received(), "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
  assert.not.match(pod.received(), /close/);
});

test("after an answer that ends the connection nothing more is read", async () => {
  const pod = await startPod();
  const { url } = await startProxy({ pod: pod.target });
  const { hostname, port } = new URL(url);
  // A client that goes on after the end of what it reads.
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  closeAfter(async () => socket.destroy());
  socket.on("error", () => socket.destroy());
  socket.resume();
  socket.write("GET /p HTTP/1.1\r\nHost: a\r\nBad\r\n\r\n");
  await new Promise((resolve) => socket.once("end", resolve));
  socket.write(get);
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.is(pod.received(), "");
});

test("who expects 100 gets the pod's, and nobody else does", async () => {
  const pod = await startPod(ignore);
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, "PUT /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  await eventually(() => pod.received().includes("Expect: 100-continue\r\n"));
  assert.is(wire.received(), "");
  const connection = await connectionOf(pod);
  connection.write("HTTP/1.1 100 Continue\r\n\r\n");
  await wire.seen("HTTP/1.1 100 Continue\r\n\r\n");
  wire.socket.write("body");
  await eventually(() => pod.received().endsWith("\r\n\r\nbody"));
  connection.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  await wire.seen("200 OK\r\nContent-Length: 0\r\n\r\n");
  wire.socket.write(get);
  await eventually(() => pod.received().split("GET /p").length === 2);
  connection.write(
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 OK\r\nContent-Length: 0\r\n\r\n",
  );
  await wire.seen("201 OK");
  const [, after = ""] = wire.received().split("200 OK\r\nContent-Length: 0\r\n\r\n");
  assert.match(after, /^HTTP\/1.1 103 Early Hints\r\nLink: <\/a>\r\n\r\nHTTP\/1.1 201 /);
});

test("a broken body after the pod's 100 is the client's fault", async () => {
  const pod = await startPod(answerWith("HTTP/1.1 100 Continue\r\n\r\n"));
  const proxy = await startProxy({ pod: pod.target });
  const fields = "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n";
  const wire = wireTo(proxy, `PUT /p HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
  await wire.seen("100 Continue\r\n\r\n");
  wire.socket.write("x\r\n");
  await wire.seen("HTTP/1.1 400 ");
  assert.match(JSON.stringify(proxy.problems), /chunk/);
});

test("interim responses wait for a client that does not read", async () => {
  const size = 60 * 1024 * 1024;
  let flushed = false;
  const hints = `HTTP/1.1 103 Early Hints\r\nLink: ${"x".repeat(1000)}\r\n\r\n`;
  const pod = await startPod(({ socket }) => {
    socket.write(hints.repeat(size / hints.length), () => {
      flushed = true;
    });
  });
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy);
  wire.socket.pause();
  wire.socket.write(get);
  await eventually(() => pod.received() !== "");
  await new Promise((resolve) => setTimeout(resolve, 1500));
  assert.is(flushed, false, "the proxy must not take all of them");
});

test("an answer before the body's end reaches a client that still sends", async () => {
  const pod = await startPod(ignore);
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, "PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc");
  const connection = await connectionOf(pod);
  connection.end("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
  await wire.seen("\r\n\r\nno");
  assert.match(wire.received(), /\r\nConnection: close\r\n/);
  wire.socket.write("more of it");
  await wire.closed;
});

test("a pod that refuses a large body by an answer and a close, with most of it unread, is heard", async () => {
  const pod = await startPod(({ socket }) => {
    socket.pause();
    socket.write("HTTP/1.0 413 Too Large\r\nContent-Length: 2\r\n\r\nno", () => socket.destroy());
  });
  const proxy = await startProxy({ pod: pod.target, clock: manualClock() });
  for (let times = 0; times < 10; times += 1) {
    const wire = wireTo(proxy, "PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
    wire.socket.write(Buffer.alloc(2_000_000, "x"));
    await wire.seen("\r\n\r\n");
    assert.match(wire.received(), /^HTTP\/1.1 413 Too Large\r\n[\s\S]*\r\n\r\nno$/);
    wire.socket.destroy();
  }
});

test("a large body goes on after a moment for the pod to refuse it, and at once when the pod asks for it", async () => {
  const size = 2_000_000;
  for (const asks of [false, true]) {
    const clock = manualClock();
    const pod = await startPod(ignore);
    const proxy = await startProxy({ pod: pod.target, clock });
    const wire = wireTo(proxy, `PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`);
    wire.socket.write(Buffer.alloc(size, "x"));
    const connection = await connectionOf(pod);
    if (asks) connection.write("HTTP/1.1 100 Continue\r\n\r\n");
    else await clock.runWhenNextIs(5);
    await eventually(() => pod.received().length > size);
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    await wire.seen("\r\n\r\nok");
    assert.is(pod.received().slice(pod.received().indexOf("\r\n\r\n") + 4), "x".repeat(size));
  }
});

/** What a pod answers that must not reach the client. */
const bad: Readonly<Record<string, string>> = {
  "not HTTP": "SSH-2.0-OpenSSH\r\n\r\n",
  "HTTP/2": "HTTP/2 200\r\n\r\n",
  "length and chunks": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  "two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 2\r\n\r\nabc",
  "an unknown coding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
  "a coding after a no-break space": "HTTP/1.1 200 OK\r\nTransfer-Encoding: \xa0chunked\r\n\r\n0\r\n\r\n",
  "a coding and an empty one": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
  "a folded field": "HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",
  "line feeds alone": "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
  "a carriage return in a value": "HTTP/1.1 200 OK\r\nX: 1\rSet-Cookie: a\r\nContent-Length: 0\r\n\r\n",
  "another protocol": "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
  "a head of 40 KB": `HTTP/1.1 200 OK\r\nX: ${"a".repeat(40_000)}\r\n\r\n`,
  "half a head": "HTTP/1.1 200 OK\r\nX: 1",
  nothing: "",
};

for (const [what, answer] of Object.entries(bad)) {
  test(`a pod that answers with ${what} is a 502`, async () => {
    const pod = await startPod(({ socket }) => socket.end(Buffer.from(answer, "latin1")));
    const proxy = await startProxy({ pod: pod.target });
    const wire = wireTo(proxy, "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    await wire.seen("}");
    assert.match(wire.received(), /^HTTP\/1.1 502 Bad Gateway\r\n[\s\S]*\{"error":"the pod/);
    assert.match(JSON.stringify(proxy.problems[0]), /response|headers|connection/);
    wire.socket.write("GET /p HTTP/1.1\r\nHost: a\r\n\r\n");
    await eventually(() => wire.received().split("HTTP/1.1 502").length === 3);
    await eventually(() => proxy.openConnections().pods === 0);
  });
}

test("a body that breaks off ends the client's connection, not the body", async () => {
  for (const head of ["Content-Length: 10", "Transfer-Encoding: chunked"]) {
    const pod = await startPod(({ socket }) => socket.end(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n3\r\nabc\r\n`));
    const proxy = await startProxy({ pod: pod.target });
    const wire = wireTo(proxy, get);
    await wire.closed;
    assert.not.match(wire.received(), /\r\n0\r\n/);
    assert.equal(
      proxy.ends.map(({ status, isComplete }) => [status, isComplete]),
      [[200, false]],
    );
  }
});

test("what a pod sends beyond its response is not the answer to the next request", async () => {
  const answers = ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"];
  const pod = await startPod(({ socket }) => {
    socket.write(answers.shift() ?? "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nreal");
  });
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, get);
  await wire.seen("\r\n\r\nok");
  wire.socket.write(get);
  await wire.seen("real");
  assert.not.match(wire.received(), /forged/);
  assert.is(pod.connections.length, 2);
});

test("what a pod sends on a kept connection that nobody asked on ends that connection", async () => {
  const pod = await startPod();
  // The clock stands still, so that no connection ends for its age.
  const proxy = await startProxy({ pod: pod.target, clock: manualClock() });
  const wire = wireTo(proxy, get);
  await wire.seen("ok");
  const connection = await connectionOf(pod);
  connection.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
  await eventually(() => proxy.openConnections().pods === 0);
  wire.socket.write(get);
  await eventually(() => wire.received().split("\r\n\r\nok").length === 3);
  assert.is(pod.connections.length, 2);
});

test("the client going away ends the request at the pod", async () => {
  const pod = await startPod(ignore);
  const proxy = await startProxy({ pod: pod.target });
  for (const [index, begin] of ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"].entries()) {
    const wire = wireTo(proxy, get);
    const connection = await connectionOf(pod, index);
    await eventually(() => pod.received().split("GET /p").length === index + 2);
    const closed = new Promise((resolve) => connection.once("close", resolve));
    connection.write(begin);
    if (begin !== "") await wire.seen("abc");
    wire.socket.destroy();
    await closed;
  }
  await eventually(() => proxy.ends.length === 2);
  assert.equal(
    proxy.ends.map(({ status, isComplete }) => [status, isComplete]),
    [
      [499, false],
      [200, false],
    ],
  );
});

test("the client going away ends the search for its pod", async () => {
  let gone: AbortSignal | undefined;
  const proxy = await startProxy({
    forward: {
      findPod(signal) {
        gone = signal();
        return new Promise(() => undefined);
      },
    },
  });
  const wire = wireTo(proxy, get);
  await eventually(() => gone !== undefined);
  wire.socket.destroy();
  await eventually(() => gone?.aborted === true);
  assert.is(proxy.ends[0]?.status, 499);
});

test("a body waits here for its pod, up to a bound, and arrives whole", async () => {
  const pod = await startPod(ignore);
  let found: (() => void) | undefined;
  const proxy = await startProxy({
    forward: {
      findPod: () =>
        new Promise((resolve) => {
          found = () => resolve(pod.target);
        }),
    },
  });
  const size = 30 * 1024 * 1024;
  const wire = wireTo(proxy, `PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`);
  let flushed = false;
  wire.socket.write(Buffer.alloc(size, "x"), () => {
    flushed = true;
  });
  await eventually(() => found !== undefined);
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  assert.is(flushed, false, "the proxy must not take all of it");
  found?.();
  await eventually(() => pod.received().length > size);
  assert.is(pod.received().length - pod.received().indexOf("\r\n\r\n") - 4, size);
});

test("a slow client slows its pod down", async () => {
  const size = 60 * 1024 * 1024;
  let flushed = false;
  const pod = await startPod(({ socket }) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
    socket.write(Buffer.alloc(size, "y"), () => {
      flushed = true;
    });
  });
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy);
  wire.socket.pause();
  wire.socket.write(get);
  await eventually(() => pod.received() !== "");
  for (let turn = 0; turn < 200; turn += 1) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.is(flushed, false, "the proxy must not take all of it");
  let read = 0;
  wire.socket.removeAllListeners("data");
  wire.socket.on("data", (chunk) => {
    read += chunk.length;
  });
  wire.socket.resume();
  await eventually(() => read > size);
  await eventually(() => flushed);
});

test("a slow pod slows its client down, with a body and with requests sent ahead", async () => {
  const pod = await startPod(ignore);
  const proxy = await startProxy({ pod: pod.target });
  const size = 60 * 1024 * 1024;
  const upload = `PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`;
  for (const [index, [first, more]] of [
    [upload, "x".repeat(size)] as const,
    [get, get.repeat(size / get.length)] as const,
  ].entries()) {
    const wire = wireTo(proxy, first);
    const connection = await connectionOf(pod, index);
    await eventually(() => pod.received().split(" /p HTTP").length === index + 2);
    connection.pause();
    let flushed = false;
    wire.socket.write(more, () => {
      flushed = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    assert.is(flushed, false, "the proxy must not take all of it");
    wire.socket.destroy();
  }
});

test("a pod that refuses the connection is looked for until the search gives up, then it is a 502", async () => {
  const pod = await startPod();
  const closed = { ...pod.target, port: 1 };
  const lost: (number | undefined)[] = [];
  const once = await startProxy({
    forward: {
      findPod(_, last) {
        lost.push(last?.target.port);
        return lost.length < 3 ? closed : pod.target;
      },
    },
  });
  await wireTo(once, "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").seen("ok");
  assert.equal(lost, [undefined, 1, 1]);
  assert.match(pod.received(), /\r\n\r\nhi$/);
  const never = await startProxy({ pod: closed });
  await wireTo(never, get).seen('{"error":"the pod cannot be reached"}');
});

test("nothing is sent to an address that is no longer the pod's", async () => {
  const stranger = await startPod();
  const pod = await startPod();
  let asked = 0;
  const proxy = await startProxy({
    forward: {
      findPod() {
        asked += 1;
        return asked === 1 ? { ...stranger.target, confirm: async () => false } : pod.target;
      },
    },
  });
  await wireTo(proxy, get).seen("ok");
  assert.is(stranger.connections.length, 1, "it was asked after the connection was open");
  assert.is(stranger.received(), "");
});

for (const [says, pauseMs, isKept] of [
  ["", 900, true],
  ["", 1100, false],
  ["Keep-Alive: timeout=5, max=100\r\n", 3900, true],
  ["Keep-Alive: timeout=5, max=100\r\n", 4100, false],
  ["Keep-Alive: timeout=1\r\n", 0, false],
  ["Keep-Alive: timeout=600\r\n", 9900, true],
  ["Keep-Alive: timeout=600\r\n", 10_100, false],
  ["Keep-Alive: max=5\r\n", 1100, false],
] as const) {
  const after = `${pauseMs} ms after a response with ${JSON.stringify(says)}`;
  test(`${after} a connection is ${isKept ? "used again" : "made anew"}`, async () => {
    const clock = manualClock();
    const pod = await startPod(answerWith(`HTTP/1.1 200 OK\r\n${says}Content-Length: 2\r\n\r\nok`));
    const proxy = await startProxy({ pod: pod.target, clock });
    const wire = wireTo(proxy, get);
    await wire.seen("ok");
    await clock.pass(pauseMs);
    wire.socket.write(get);
    await eventually(() => wire.received().split("\r\n\r\nok").length === 3);
    assert.is(pod.connections.length, isKept ? 1 : 2);
    assert.not.match(wire.received(), /keep-alive/i);
  });
}

test("a kept connection is never used for another pod at the same address", async () => {
  const pod = await startPod();
  let uid = "pod-1";
  const proxy = await startProxy({ forward: { findPod: () => ({ ...pod.target, uid }) } });
  const wire = wireTo(proxy, get);
  await wire.seen("ok");
  uid = "pod-2";
  wire.socket.write(get);
  await eventually(() => wire.received().split("\r\n\r\nok").length === 3);
  assert.is(pod.connections.length, 2);
});

test("a request on a kept connection that breaks is sent again where that does no harm", async () => {
  let requests = 0;
  const pod = await startPod(({ socket, text, done }) => {
    if (!text.includes("\r\n\r\n")) return;
    done();
    requests += 1;
    if (requests % 2 === 0) socket.destroy();
    else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  const proxy = await startProxy({ pod: pod.target });
  const wire = wireTo(proxy, get);
  await wire.seen("ok");
  wire.socket.write(get);
  await eventually(() => wire.received().split("\r\n\r\nok").length === 3);
  assert.is(requests, 3);
  wire.socket.write("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  await wire.seen("HTTP/1.1 502 ");
  assert.is(requests, 4);
});

test("a route's own answer, and one instead of a pod, keep the connection", async () => {
  const answer = errorAnswer(503, "not now", [["Retry-After", "1"]]);
  const proxy = await startProxy({
    route: ({ head }) => {
      if (head.target === "/route") return { kind: "answer", answer };
      const findPod = (): never => {
        throw new AnswerError(answer);
      };
      return { kind: "forward", findPod, request: {}, response: {} };
    },
  });
  const wire = wireTo(proxy, "GET /route HTTP/1.1\r\nHost: a\r\n\r\nGET /pod HTTP/1.1\r\nHost: a\r\n\r\n");
  await eventually(() => wire.received().split("not now").length === 3);
  assert.match(wire.received(), /\r\nRetry-After: 1\r\n/);
  wire.socket.write("HEAD /route HTTP/1.1\r\nHost: a\r\n\r\n");
  await eventually(() => wire.received().endsWith("\r\nContent-Length: 19\r\n\r\n"));
  wire.socket.write("POST /route HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde");
  await wire.closed;
});

test("a stop lets a request finish, and ends connections without one", async () => {
  const pod = await startPod(ignore);
  const proxy = await startProxy({ pod: pod.target });
  const idle = wireTo(proxy);
  const busy = wireTo(proxy, get);
  const connection = await connectionOf(pod);
  await eventually(() => pod.received() !== "");
  const stopped = proxy.stop({ graceMs: 60_000 });
  await idle.closed;
  connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await busy.closed;
  assert.match(busy.received(), /\r\nConnection: close\r\n[\s\S]*\r\n\r\nok$/);
  assert.is(await stopped, true);
});

test("a stop answers what is left after its grace with 503, and cuts what has begun", async () => {
  const pod = await startPod(ignore);
  const proxy = await startProxy({ pod: pod.target });
  const waiting = wireTo(proxy, get);
  await connectionOf(pod);
  const begun = wireTo(proxy, get);
  (await connectionOf(pod, 1)).write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
  await begun.seen("abc");
  const stopped = proxy.stop({ graceMs: 10 });
  await waiting.seen("HTTP/1.1 503 ");
  await begun.closed;
  assert.is(await stopped, false);
});

test("whoever started a request can end it", async () => {
  const pod = await startPod(ignore);
  let stop: ((answer: LocalAnswer) => void) | undefined;
  const onStart = (given: (answer: LocalAnswer) => void): void => {
    stop = given;
  };
  const proxy = await startProxy({ pod: pod.target, forward: { onStart } });
  const wire = wireTo(proxy, get);
  const connection = await connectionOf(pod);
  await eventually(() => pod.received() !== "");
  const closed = new Promise((resolve) => connection.once("close", resolve));
  stop?.(errorAnswer(503, "the instance is being released", [["Retry-After", "5"]]));
  await wire.seen("being released");
  await closed;
  assert.is(proxy.ends[0]?.status, 503);
});

test.run();
