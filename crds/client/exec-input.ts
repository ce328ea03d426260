import type { Readable } from "node:stream";
import type { WebSocket } from "ws";

const STDIN = 0;

/** A message is what the server takes into memory at once; larger ones were not faster. */
const messageBytes = 64 * 1024;

/** What may wait in this process for a slow pod, the socket's own buffer included. */
const maxWaitingBytes = 1024 * 1024;

/** Told before and after each piece, so that somebody can see when one is not taken. */
export interface InputProgress {
  sending(): void;
  sent(bytes: number): void;
}

/**
 * Sends a stream as the input of a command, as fast as the other end takes it.
 *
 * The end of the stream is not told: v5 of the protocol can, v4 cannot, and a command that works with both has to know it anyway.
 *
 * @throws whatever the stream fails with
 */
export async function sendInput(socket: WebSocket, input: Readable, progress: InputProgress): Promise<void> {
  for await (const chunk of input as AsyncIterable<Buffer>) {
    for (let offset = 0; offset < chunk.length; offset += messageBytes) {
      progress.sending();
      const piece = chunk.subarray(offset, offset + messageBytes);
      await send(socket, piece);
      progress.sent(piece.length);
    }
  }
}

function send(socket: WebSocket, data: Buffer): Promise<void> {
  const message = Buffer.allocUnsafe(data.length + 1);
  message[0] = STDIN;
  data.copy(message, 1);
  return new Promise((resolve) => {
    // A socket that fails says so by its own event.
    const isFull = socket.bufferedAmount + message.length > maxWaitingBytes;
    socket.send(message, () => isFull && resolve());
    if (!isFull) resolve();
  });
}
