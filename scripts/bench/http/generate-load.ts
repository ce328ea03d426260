import { connect, type Socket } from "node:net";
import type { LoadOrder, LoadResult } from "./load-result.ts";
import { readResponseHead } from "./response-head.ts";

const MOST_SAMPLES = 10_000;

/**
 * Sends one request after the other on each of many kept connections, as fast as they are answered.
 *
 * Written on sockets: an HTTP client of the same runtime would use more CPU than the server that it measures.
 *
 * @throws Error when a connection fails
 */
export async function generateLoad(order: LoadOrder): Promise<LoadResult> {
  const request = Buffer.from(requestText(order));
  const countFrom = performance.now() + order.warmUpMs;
  const countUntil = countFrom + order.measureMs;
  const times: number[] = [];
  let failed = 0;

  await Promise.all(Array.from({ length: order.connections }, () => run(connect(order.port, "127.0.0.1"))));
  const every = Math.max(1, Math.ceil(times.length / MOST_SAMPLES));
  return {
    requests: times.length,
    failed,
    seconds: order.measureMs / 1000,
    samplesMs: times.filter((_, index) => index % every === 0),
  };

  function run(socket: Socket): Promise<void> {
    return new Promise((resolve, reject) => {
      let pending: Buffer | undefined;
      let sentAt = 0;
      socket.setNoDelay(true);
      socket.on("connect", send);
      socket.on("error", reject);
      socket.on("close", () => reject(new Error("the server closed a connection")));
      socket.on("data", (chunk) => {
        try {
          receive(chunk);
        } catch (error) {
          socket.destroy(error as Error);
        }
      });

      function send(): void {
        sentAt = performance.now();
        socket.write(request);
      }

      function receive(chunk: Buffer): void {
        const bytes = pending === undefined ? chunk : Buffer.concat([pending, chunk]);
        const head = readResponseHead(bytes);
        if (head === undefined || bytes.length < head.length) {
          pending = bytes;
          return;
        }
        pending = undefined;
        const now = performance.now();
        if (now >= countFrom && now < countUntil) {
          times.push(now - sentAt);
          if (head.status !== 200 && head.status !== 201) failed += 1;
        }
        if (now < countUntil) {
          send();
          return;
        }
        socket.removeAllListeners("close");
        socket.destroy();
        resolve();
      }
    });
  }
}

function requestText({ method, path, body = "" }: LoadOrder): string {
  const head = [`${method} ${path} HTTP/1.1`, "host: 127.0.0.1", "accept: application/json"];
  if (body !== "") head.push("content-type: application/json", `content-length: ${Buffer.byteLength(body)}`);
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}
