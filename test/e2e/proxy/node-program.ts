// A program on Node for the tests of this folder: HTTP and WebSockets on port 8080, on 9000 a server that keeps every
// byte of each connection, and on 9001 what it has kept.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createRawServer } from "node:net";
import { hostname } from "node:os";
import { WebSocketServer } from "ws";

const FILES = "/data/files";
const PIECE = Buffer.alloc(64 * 1024, "0123456789abcdef");
const WEBSOCKET_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** What waits for a word of the test, by its name. */
const waiting = new Map<string, () => void>();
/** Of the download that goes on: what it has written, and whether its reader keeps it from writing more. */
let download = { written: 0, isHeld: false };

function untilTold(name: string): Promise<void> {
  return new Promise((resolve) => waiting.set(name, resolve));
}

async function digestOf(request: IncomingMessage): Promise<object> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  const { trailers, headers } = request;
  return { bytes, sha256: hash.digest("hex"), trailers, framing: headers["transfer-encoding"] ?? "length" };
}

async function sendBytes(response: ServerResponse, total: number, isChunked: boolean): Promise<void> {
  const hash = createHash("sha256");
  download = { written: 0, isHeld: false };
  response.writeHead(200, isChunked ? { trailer: "x-sha256" } : { "content-length": total });
  while (download.written < total) {
    const piece = PIECE.subarray(0, Math.min(PIECE.length, total - download.written));
    // No two pieces are the same.
    const own = Buffer.from(piece);
    own.writeDoubleLE(download.written, 0);
    hash.update(own);
    download.written += own.length;
    if (response.write(own)) continue;
    download.isHeld = true;
    await once(response, "drain");
    download.isHeld = false;
  }
  if (isChunked) response.addTrailers({ "x-sha256": hash.digest("hex") });
  response.end();
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://pod");
  const number = (name: string) => Number(searchParams.get(name));
  const json = (value: unknown) => response.end(JSON.stringify(value));
  if (pathname === "/tell") {
    const name = searchParams.get("name") ?? "";
    const resolve = waiting.get(name);
    waiting.delete(name);
    resolve?.();
    return void json(resolve !== undefined);
  }
  if (pathname === "/events") {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (let event = 1; event <= number("count"); event += 1) {
      response.write(`id: ${event}\ndata: ${hostname()}\n\n`);
      // With a pause as programs do it, or when the test has read the last one.
      if (number("everyMs") > 0) await new Promise((resolve) => setTimeout(resolve, number("everyMs")));
      else await untilTold(`event-${event}`);
    }
    return void response.end();
  }
  if (pathname === "/digest") {
    if (searchParams.has("waits")) await untilTold("read");
    return void json(await digestOf(request));
  }
  if (pathname === "/download") return await sendBytes(response, number("bytes"), searchParams.has("chunked"));
  if (pathname === "/download-state") return void json(download);
  if (pathname === "/crash") process.exit(1);
  if (pathname === "/early") {
    // Before it has read the body.
    response.writeHead(403);
    return void response.end("no");
  }
  if (pathname.startsWith("/files/")) {
    const path = `${FILES}/${pathname.slice("/files/".length)}`;
    if (request.method === "PUT") {
      mkdirSync(FILES, { recursive: true });
      const parts: Buffer[] = [];
      for await (const chunk of request as AsyncIterable<Buffer>) parts.push(chunk);
      writeFileSync(path, Buffer.concat(parts));
    }
    return void response.end(readFileSync(path));
  }
  const parts: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) parts.push(chunk);
  json({ pod: hostname(), body: Buffer.concat(parts).toString(), url: request.url, headers: request.headers });
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    console.error(error);
    response.destroy();
  });
});
server.requestTimeout = 0;
const sockets = new WebSocketServer({
  noServer: true,
  maxPayload: 64 * 1024 * 1024,
  perMessageDeflate: { threshold: 0 },
  handleProtocols: (asked) => (asked.has("chosen") ? "chosen" : false),
});
sockets.on("connection", (socket) => {
  socket.on("error", console.error);
  socket.on("message", (data, isBinary) => {
    const text = isBinary ? "" : String(data);
    if (text.startsWith("close ")) socket.close(Number(text.slice("close ".length)), "as asked");
    else socket.send(data, { binary: isBinary });
  });
  socket.on("close", (code, reason) => console.log(`websocket closed: ${code} ${reason}`));
});
server.on("upgrade", (request, socket, head) => {
  if (request.url?.startsWith("/closed") === true) {
    socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\n\r\nnot here");
  } else sockets.handleUpgrade(request, socket, head, (opened) => sockets.emit("connection", opened, request));
});
server.listen(8080);

const kept: Buffer[] = [];
createRawServer((socket) => {
  const parts: Buffer[] = [];
  const index = kept.push(Buffer.alloc(0)) - 1;
  let answered = 0;
  let isWebSocket = false;
  socket.on("error", () => socket.destroy());
  socket.on("data", (chunk: Buffer) => {
    parts.push(chunk);
    const all = Buffer.concat(parts);
    kept[index] = all;
    if (isWebSocket) return;
    const text = all.toString("latin1", answered);
    const end = text.indexOf("\r\n\r\n");
    if (end === -1) return;
    const head = text.slice(0, end);
    const key = /^sec-websocket-key: (.*)$/im.exec(head)?.[1];
    if (key !== undefined) {
      isWebSocket = true;
      const accept = createHash("sha1").update(`${key}${WEBSOCKET_GUID}`).digest("base64");
      const fields = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}`;
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n\r\n`);
      return;
    }
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
    const isWhole = /^transfer-encoding:/im.test(head)
      ? /\r\n0\r\n(?:[^\r\n]+\r\n)*\r\n$/.test(text)
      : text.length >= end + 4 + length;
    if (!isWhole) return;
    answered = all.length;
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkept");
  });
}).listen(9000);
createServer((_, response) => response.end(JSON.stringify(kept.map((one) => one.toString("latin1"))))).listen(9001);
