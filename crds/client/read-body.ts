import type { IncomingMessage } from "node:http";

/**
 * The whole body of an answer.
 *
 * @throws Error when the connection ends before the body does
 */
export function readBody(response: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    response.on("data", (chunk: Buffer) => chunks.push(chunk));
    response.on("end", () =>
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)),
    );
    response.on("error", reject);
    response.on("close", () => {
      if (!response.complete) reject(new Error("the connection ended in the middle of the answer"));
    });
  });
}
