// The program of every simulated pod, on all loopback addresses. It prints its port, and answers each request with two
// bytes, or with a WebSocket that answers each message of eight bytes. If it did more work, that would be measured.

import { type AddressInfo, createServer } from "node:net";

const ANSWER = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
const SWITCHED =
  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const MESSAGE = Buffer.concat([Buffer.from([0x81, 8]), Buffer.from("8 bytes.")]);
/** Of a client's message of eight bytes. */
const MASKED_BYTES = 14;
const HEAD_END = Buffer.from("\r\n\r\n");

const server = createServer({ noDelay: true }, (socket) => {
  let rest = Buffer.alloc(0);
  let isWebSocket = false;
  socket.on("error", () => socket.destroy());
  socket.on("data", (chunk) => {
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (let end = bytes.indexOf(HEAD_END); end !== -1 && !isWebSocket; end = bytes.indexOf(HEAD_END)) {
      isWebSocket = bytes.toString("latin1", 0, end).toLowerCase().includes("upgrade: websocket");
      bytes = bytes.subarray(end + HEAD_END.length);
      socket.write(isWebSocket ? SWITCHED : ANSWER);
    }
    for (; isWebSocket && bytes.length >= MASKED_BYTES; bytes = bytes.subarray(MASKED_BYTES)) socket.write(MESSAGE);
    rest = bytes;
  });
});
server.listen({ port: 0, host: "0.0.0.0", backlog: 4096 }, () => console.log((server.address() as AddressInfo).port));
