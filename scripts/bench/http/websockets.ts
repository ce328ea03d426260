// Opens WebSockets and holds them, as a process of its own: takes a WebSocketOrder as JSON, prints a line once all are
// open, sends short messages over some of them each second, and prints the times of their echoes once its input ends.

import { connect, type Socket } from "node:net";

/** WebSockets to hold. */
export interface WebSocketOrder {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly count: number;
  /** Messages a second, each over another of them. */
  readonly perSecond: number;
}

const AT_ONCE = 100;
const TICK_MS = 20;
/** A text message of eight bytes, with a mask of zeros as a client must have one. */
const MESSAGE = Buffer.concat([Buffer.from([0x81, 0x88, 0, 0, 0, 0]), Buffer.from("8 bytes.")]);

const { port, path, headers, count, perSecond } = JSON.parse(process.argv[2] ?? "") as WebSocketOrder;
const handshake = [
  `GET ${path} HTTP/1.1`,
  "host: 127.0.0.1",
  "connection: Upgrade",
  "upgrade: websocket",
  "sec-websocket-version: 13",
  "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
  ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
].join("\r\n");
const sentAt = new Map<Socket, number>();
const echoesMs: number[] = [];

const sockets: Socket[] = [];
while (sockets.length < count) {
  const more = Math.min(AT_ONCE, count - sockets.length);
  sockets.push(...(await Promise.all(Array.from({ length: more }, open))));
}
console.log("open");

let next = 0;
const sending = setInterval(() => {
  for (let sent = 0; sent < (perSecond * TICK_MS) / 1000; sent += 1) {
    const socket = sockets[next % sockets.length];
    next += 1;
    if (socket === undefined || sentAt.has(socket)) continue;
    sentAt.set(socket, performance.now());
    socket.write(MESSAGE);
  }
}, TICK_MS);
process.stdin.resume().on("end", () => {
  clearInterval(sending);
  console.log(JSON.stringify(echoesMs));
  process.exit(0);
});

function open(): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    socket.on("error", reject);
    socket.on("close", () => {
      console.error("the server closed a WebSocket");
      process.exit(1);
    });
    socket.once("data", (head: Buffer) => {
      if (!head.toString("latin1").startsWith("HTTP/1.1 101 ")) reject(new Error(head.toString("latin1")));
      socket.on("data", () => {
        const at = sentAt.get(socket);
        if (at === undefined) return;
        echoesMs.push(performance.now() - at);
        sentAt.delete(socket);
      });
      resolve(socket);
    });
    socket.write(`${handshake}\r\n\r\n`);
  });
}
