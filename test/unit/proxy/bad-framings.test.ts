// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { eventually } from "../../eventually.ts";
import { openWire } from "../edge/open-wire.ts";
import { startPod } from "./fake-pod.ts";
import { closeAfter, closeAll, startProxy } from "./start-proxy.ts";

const test = suite("requests that can be read in two ways");
test.after.each(closeAll);

const host = "Host: a\r\n";
/** What an attacker wants the pod to see as a request of its own. */
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
const post = (fields: string, body: string): string => `POST /p HTTP/1.1\r\n${host}${fields}\r\n${body}`;
const get = (fields: string): string => `GET /p HTTP/1.1\r\n${host}${fields}\r\n`;
const chunked = (body: string): string => post("Transfer-Encoding: chunked\r\n", body);
const target = (text: string): string => `GET ${text} HTTP/1.1\r\n${host}\r\n`;

/** Each is answered with the status before anything of it reaches a pod. */
const refused: Readonly<Record<string, readonly [request: string, status: number]>> = {
  "length and chunks": [post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", `0\r\n\r\n${smuggled}`), 400],
  "chunks and length": [post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", `0\r\n\r\n${smuggled}`), 400],
  "two lengths": [post("Content-Length: 3\r\nContent-Length: 5\r\n", `abcde${smuggled}`), 400],
  "the same length twice": [post("Content-Length: 5\r\nContent-Length: 5\r\n", "abcde"), 400],
  "a list of lengths": [post("Content-Length: 5, 5\r\n", "abcde"), 400],
  "a length with a sign": [post("Content-Length: +5\r\n", "abcde"), 400],
  "a negative length": [post("Content-Length: -1\r\n", "abcde"), 400],
  "a hexadecimal length": [post("Content-Length: 0x5\r\n", "abcde"), 400],
  "a length with a word after it": [post("Content-Length: 5 x\r\n", "abcde"), 400],
  "an empty length": [post("Content-Length:\r\n", smuggled), 400],
  "a length that overflows": [post("Content-Length: 18446744073709551621\r\n", `abcde${smuggled}`), 400],
  "an unknown coding": [post("Transfer-Encoding: xchunked\r\n", `0\r\n\r\n${smuggled}`), 501],
  "chunked, then identity": [post("Transfer-Encoding: chunked, identity\r\n", `0\r\n\r\n${smuggled}`), 501],
  identity: [post("Transfer-Encoding: identity\r\n", smuggled), 501],
  "gzip, then chunked": [post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501],
  "chunked twice": [post("Transfer-Encoding: chunked, chunked\r\n", `0\r\n\r\n${smuggled}`), 501],
  "chunked in two fields": [
    post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", `0\r\n\r\n${smuggled}`),
    501,
  ],
  "an empty coding": [post("Transfer-Encoding:\r\n", smuggled), 501],
  "a coding and an empty one": [
    post("Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n", `0\r\n\r\n${smuggled}`),
    501,
  ],
  "an empty member, then chunked": [post("Transfer-Encoding: ,chunked\r\n", `0\r\n\r\n${smuggled}`), 501],
  "chunked, then an empty member": [post("Transfer-Encoding: chunked,\r\n", `0\r\n\r\n${smuggled}`), 501],
  "a coding after a no-break space": [post("Transfer-Encoding: \xa0chunked\r\n", `0\r\n\r\n${smuggled}`), 501],
  "a coding before a no-break space": [post("Transfer-Encoding: chunked\xa0\r\n", `0\r\n\r\n${smuggled}`), 501],
  "an expectation after a no-break space": [post("Expect: \xa0100-continue\r\nContent-Length: 5\r\n", "abcde"), 417],
  "a coding after a vertical tab": [post("Transfer-Encoding: \x0bchunked\r\n", `0\r\n\r\n${smuggled}`), 400],
  "a coding in quotes": [post('Transfer-Encoding: "chunked"\r\n', `0\r\n\r\n${smuggled}`), 501],
  "a coding with a parameter": [post("Transfer-Encoding: chunked;q=1\r\n", `0\r\n\r\n${smuggled}`), 501],
  "chunks of HTTP/1.0": [`POST /p HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
  "a blank before the length's colon": [post("Content-Length : 5\r\n", `abcde${smuggled}`), 400],
  "a blank before the coding's colon": [post("Transfer-Encoding : chunked\r\n", `0\r\n\r\n${smuggled}`), 400],
  "a tab before a colon": [get("X\t: 5\r\n"), 400],
  "a folded field": [get("X-A: 1\r\n  folded\r\n"), 400],
  "a folded coding": [post("Transfer-Encoding:\r\n chunked\r\n", `0\r\n\r\n${smuggled}`), 400],
  "a folded first field": [`GET /p HTTP/1.1\r\n Host: b\r\n${host}\r\n`, 400],
  "line feeds alone": ["GET /p HTTP/1.1\nHost: a\n\n", 400],
  "a line feed alone in a field": [get("X: 1\nTransfer-Encoding: chunked\r\n"), 400],
  "a carriage return in a field": [get("X: 1\rY: 2\r\n"), 400],
  "two carriage returns": [`GET /p HTTP/1.1\r\r\n${host}\r\n`, 400],
  "NUL in a value": [get("X: a\0b\r\n"), 400],
  "NUL in a name": [get("X\0Y: b\r\n"), 400],
  "a control character in a value": [get("X: a\x01b\r\n"), 400],
  "DEL in a value": [get("X: a\x7fb\r\n"), 400],
  "a name with brackets": [get("X@(y): b\r\n"), 400],
  "no name": [get(": b\r\n"), 400],
  "no colon": [get("Xyz\r\n"), 400],
  "a target for another host": [target("http://other/p"), 400],
  "a target with a user": [target("http://u:p@a/p"), 400],
  "a target of https": [target("https://a/p"), 400],
  "a target that is an authority": [target("a:80"), 400],
  "a target without a slash": [target("p"), 400],
  "a target with a fragment": [target("/a#b"), 400],
  "a target with a blank": [target("/a b"), 400],
  "a target with a tab": [target("/a\tb"), 400],
  "a star": [target("*"), 400],
  CONNECT: [`CONNECT a:80 HTTP/1.1\r\n${host}\r\n`, 405],
  TRACE: [`TRACE /p HTTP/1.1\r\n${host}\r\n`, 405],
  "Host twice": ["GET /p HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400],
  "the same Host twice": ["GET /p HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400],
  "no Host": ["GET /p HTTP/1.1\r\nX: 1\r\n\r\n", 400],
  "an empty Host": ["GET /p HTTP/1.1\r\nHost:\r\n\r\n", 400],
  "a list of hosts": ["GET /p HTTP/1.1\r\nHost: a, b\r\n\r\n", 400],
  "a Host with a user": ["GET /p HTTP/1.1\r\nHost: a@b\r\n\r\n", 400],
  "a Host with a path": ["GET /p HTTP/1.1\r\nHost: a/b?c\r\n\r\n", 400],
  "HTTP/0.9": ["GET /p\r\n\r\n", 400],
  "HTTP/1.2": [`GET /p HTTP/1.2\r\n${host}\r\n`, 505],
  "HTTP/2.0": [`GET /p HTTP/2.0\r\n${host}\r\n`, 505],
  "the preface of HTTP/2": ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505],
  "HTTP/01.1": [`GET /p HTTP/01.1\r\n${host}\r\n`, 400],
  "http in small letters": [`GET /p http/1.1\r\n${host}\r\n`, 400],
  "two blanks": [`GET  /p HTTP/1.1\r\n${host}\r\n`, 400],
  "a blank at the end of the line": [`GET /p HTTP/1.1 \r\n${host}\r\n`, 400],
  "a method with a bracket": [`GE(T /p HTTP/1.1\r\n${host}\r\n`, 400],
  "a method of 40 letters": [`${"A".repeat(40)} /p HTTP/1.1\r\n${host}\r\n`, 501],
  "another expectation": [post("Expect: 200-ok\r\nContent-Length: 5\r\n", "abcde"), 417],
  "a handshake with a body": [
    get("Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n") + smuggled.slice(0, 5),
    400,
  ],
  "a head of 40 KB": [get(`X: ${"a".repeat(40_000)}\r\n`), 431],
  "a target of 40 KB": [target(`/${"a".repeat(40_000)}`), 431],
  "150 fields": [get(Array.from({ length: 150 }, (_, index) => `X-${index}: 1\r\n`).join("")), 431],
};

for (const [what, [request, status]] of Object.entries(refused)) {
  test(`${what} is answered ${status} and not forwarded`, async () => {
    const pod = await startPod();
    const proxy = await startProxy({ pod: pod.target });
    const wire = openWire(proxy.url);
    closeAfter(async () => wire.socket.destroy());
    wire.socket.write(Buffer.from(request, "latin1"));
    await wire.closed;
    assert.match(wire.received(), new RegExp(`^HTTP/1.1 ${status} `));
    assert.is(wire.received().match(/HTTP\/1\.1 \d/g)?.length, 1, "there is one answer");
    assert.match(wire.received(), /\r\nConnection: close\r\n/);
    assert.is(pod.received(), "");
  });
}

/** The head reaches the pod before the body turns out to be wrong: the connections to both end with it. */
const broken: Readonly<Record<string, string>> = {
  "an extension that ends with a line feed": chunked("3;\nxx\r\nabc\r\n0\r\n\r\n"),
  "a size with 0x": chunked(`0x3\r\nabc\r\n0\r\n\r\n${smuggled}`),
  "a negative size": chunked(`-1\r\nabc\r\n0\r\n\r\n${smuggled}`),
  "a size that overflows": chunked(`10000000000000003\r\nabc\r\n0\r\n\r\n${smuggled}`),
  "a size with an underscore": chunked(`0_3\r\nabc\r\n0\r\n\r\n${smuggled}`),
  "a blank after the size": chunked(`3 \r\nabc\r\n0\r\n\r\n${smuggled}`),
  "an empty size": chunked(`\r\nabc\r\n0\r\n\r\n${smuggled}`),
  "line feeds alone": chunked(`3\nabc\n0\n\n${smuggled}`),
  "a line feed after the data": chunked(`3\r\nabc\n0\r\n\r\n${smuggled}`),
  "data that is longer than its size": chunked(`3\r\nabcXX0\r\n\r\n${smuggled}`),
  "a trailer that is no field": chunked(`3\r\nabc\r\n0\r\njunk\r\n\r\n${smuggled}`),
  "a trailer with a folded field": chunked(`3\r\nabc\r\n0\r\nX: 1\r\n y\r\n\r\n${smuggled}`),
  "an extension of 300 bytes": chunked(`3;${"a".repeat(300)}\r\nabc\r\n0\r\n\r\n${smuggled}`),
};

for (const [what, request] of Object.entries(broken)) {
  test(`${what} in a body ends the connection to the pod`, async () => {
    const pod = await startPod(() => undefined);
    const proxy = await startProxy({ pod: pod.target });
    const wire = openWire(proxy.url);
    closeAfter(async () => wire.socket.destroy());
    const at = request.indexOf("\r\n\r\n") + 4;
    wire.socket.write(Buffer.from(request.slice(0, at), "latin1"));
    await eventually(() => pod.received().includes("\r\n\r\n"));
    const [connection] = pod.connections;
    const closed = new Promise((resolve) => connection?.once("close", resolve));
    wire.socket.write(Buffer.from(request.slice(at), "latin1"));
    await Promise.all([wire.closed, closed]);
    assert.match(wire.received(), /^HTTP\/1.1 400 /);
    assert.not.match(pod.received(), /smuggled/);
    assert.not.match(pod.received(), /\r\n0\r\n/, "the pod must not take the body for complete");
    assert.is(pod.connections.length, 1);
  });
}

/** Nothing is wrong with these, and servers have got them wrong. */
const allowed: Readonly<Record<string, readonly [request: string, seen: readonly RegExp[]]>> = {
  "a GET with a length": [
    `GET /p HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\nabcde`,
    [/^GET \/p HTTP\/1.1\r\n[\s\S]*Content-Length: 5\r\n\r\nabcde$/],
  ],
  "a GET with chunks": [
    `GET /p HTTP/1.1\r\n${host}Transfer-Encoding: Chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n`,
    [/Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n$/],
  ],
  "a body that looks like a request": [post("Content-Length: 37\r\n", smuggled.padEnd(37)), [/\r\n\r\nGET \/smuggled/]],
  "a path with dots and escapes": [
    target("/a/../b/%2e%2e/c%2Fd//e?x=/../y"),
    [/^GET \/a\/..\/b\/%2e%2e\/c%2Fd\/\/e\?x=\/..\/y HTTP/],
  ],
  "bytes over 127 in a target, as browsers would send them": [
    target("/\xc3\xa9\x85\xa0?\xff=%e9"),
    [/^GET \/%C3%A9%85%A0\?%FF=%e9 HTTP/],
  ],
  "a path with two slashes": [target("//other/p"), [/^GET \/\/other\/p HTTP/]],
  "a backslash": [target("/a\\..\\b"), [/^GET \/a\\..\\b HTTP/]],
  "a target that is a URL": [target("http://A/p?q"), [/^GET \/p\?q HTTP\/1.1\r\nHost: a\r\n/]],
  "a target that is a URL without a path": [target("http://a?q"), [/^GET \/\?q HTTP\/1.1\r\nHost: a\r\n/]],
  "a star of OPTIONS": [`OPTIONS * HTTP/1.1\r\n${host}\r\n`, [/^OPTIONS \* HTTP/]],
  "an unknown method": [`PURGE /p HTTP/1.1\r\n${host}\r\n`, [/^PURGE \/p /]],
  "a method in small letters": [`get /p HTTP/1.1\r\n${host}\r\n`, [/^get \/p /]],
  "an empty line before": [`\r\nGET /p HTTP/1.1\r\n${host}\r\n`, [/^GET \/p /]],
  "bytes over 127 in a value": [get("X: \xe9\r\n"), [/\r\nX: \xe9\r\n/]],
  "an upgrade after a no-break space, and options of the connection": [
    get("Connection: \xa0x, upgrade\r\nUpgrade: \xa0websocket\r\nX: 1\r\n"),
    [/^GET \/p (?![\s\S]*(?:upgrade|connection))[\s\S]*\r\nX: 1\r\n/i],
  ],
  "an upgrade to HTTP/2": [
    get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"),
    [/^GET \/p (?![\s\S]*(?:upgrade|http2|connection))/i],
  ],
  "a connection that would take the length along": [
    post("Connection: close, content-length, host\r\nContent-Length: 5\r\n", "abcde"),
    [/^POST \/p HTTP\/1.1\r\nHost: a\r\n[\s\S]*Content-Length: 5\r\n\r\nabcde$/],
  ],
};

for (const [what, [request, seen]] of Object.entries(allowed)) {
  test(`${what} reaches the pod`, async () => {
    const pod = await startPod();
    const proxy = await startProxy({ pod: pod.target });
    const wire = openWire(proxy.url);
    closeAfter(async () => wire.socket.destroy());
    wire.socket.write(Buffer.from(request, "latin1"));
    await wire.seen("\r\n\r\nok");
    for (const pattern of seen) assert.match(pod.received(), pattern);
  });
}

test("an empty line before a request may come in two pieces", async () => {
  const pod = await startPod();
  const proxy = await startProxy({ pod: pod.target });
  const wire = openWire(proxy.url, "\r");
  closeAfter(async () => wire.socket.destroy());
  await new Promise((resolve) => setTimeout(resolve, 20));
  wire.socket.write(`\nGET /p HTTP/1.1\r\n${host}\r\n`);
  await wire.seen("ok");
  assert.match(pod.received(), /^GET \/p /);
});

test.run();
