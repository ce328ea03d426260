import { connect, type Socket } from "node:net";

const MOST_SAMPLES = 10_000;

/**
 * Sends requests on many connections. On each, the next request follows the response to the last.
 *
 * It uses sockets, since an HTTP client of the same runtime would use more CPU than the measured server.
 *
 * @throws Error if a connection fails
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

function requestText({ method, path, headers = {}, body = "" }: LoadOrder): string {
  const head = [`${method} ${path} HTTP/1.1`, "host: 127.0.0.1", "accept: application/json"];
  for (const [name, value] of Object.entries(headers)) head.push(`${name}: ${value}`);
  if (body !== "") head.push("content-type: application/json", `content-length: ${Buffer.byteLength(body)}`);
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

/** One route to load. */
export interface LoadOrder {
  readonly port: number;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly connections: number;
  /** How long requests are sent before they are counted. */
  readonly warmUpMs: number;
  readonly measureMs: number;
}

/** The result. */
export interface LoadResult {
  readonly requests: number;
  /** Responses with another status than 200 or 201. */
  readonly failed: number;
  readonly seconds: number;
  /** Times of a part of the requests, evenly spread, in milliseconds. */
  readonly samplesMs: readonly number[];
}

/** What the head of a response shows about the response. */
interface ResponseHead {
  readonly status: number;
  /** Head and body, in bytes. */
  readonly length: number;
}

const HEAD_END = Buffer.from("\r\n\r\n");

/**
 * Reads the head of an HTTP/1.1 response at the start of the bytes; undefined while it is not complete.
 *
 * @throws Error if the head does not have the length of the body
 */
export function readResponseHead(bytes: Buffer): ResponseHead | undefined {
  const end = bytes.indexOf(HEAD_END);
  if (end === -1) return undefined;
  const head = bytes.toString("latin1", 0, end);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined) throw new Error(`Cannot measure: a response has no content-length: ${head.slice(0, 200)}`);
  return { status: Number(head.slice(9, 12)), length: end + HEAD_END.length + Number(length) };
}
