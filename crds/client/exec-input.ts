import type { Readable } from "node:stream";
import type { WebSocket } from "ws";

const STDIN = 0;
const CLOSE = 255;

/** A message is what the server takes into memory at once; larger ones were not faster. */
const messageBytes = 64 * 1024;

/** What may wait in this process for a slow pod, the socket's own buffer included. */
const maxWaitingBytes = 1024 * 1024;

/**
 * Sends a stream as the input of a command, as fast as the other end takes it. Where the protocol can say so, the end of the stream
 * is the end of the input.
 *
 * @throws whatever the stream fails with
 */
export async function sendInput(
  socket: WebSocket,
  input: Readable,
  options: { canEndInput: boolean; onSent: () => void },
): Promise<void> {
  for await (const chunk of input as AsyncIterable<Buffer>) {
    for (let offset = 0; offset < chunk.length; offset += messageBytes) {
      await send(socket, STDIN, chunk.subarray(offset, offset + messageBytes));
      options.onSent();
    }
  }
  if (options.canEndInput) await send(socket, CLOSE, Buffer.of(STDIN));
}

function send(socket: WebSocket, channel: number, data: Buffer): Promise<void> {
  const message = Buffer.allocUnsafe(data.length + 1);
  message[0] = channel;
  data.copy(message, 1);
  return new Promise((resolve) => {
    // A socket that fails says so by its own event.
    const isFull = socket.bufferedAmount + message.length > maxWaitingBytes;
    socket.send(message, () => isFull && resolve());
    if (!isFull) resolve();
  });
}
