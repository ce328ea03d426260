import { type Agent, type IncomingMessage, type RequestOptions, request as requestOverHttp } from "node:http";
import { request as requestOverHttps } from "node:https";
import type { Socket } from "node:net";
import { onAbort } from "../waits.ts";
import { NetworkError } from "./api-error.ts";
import type { Clock } from "./clock.ts";

export interface RoundTripOptions {
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
  readonly agent: Agent;
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string | undefined;
  /** Milliseconds from the call to the end of `read`. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly clock: Clock;
  /** The connections that have served a request. The caller owns them, with the agent. */
  readonly usedSockets: WeakSet<Socket>;
}

/**
 * One HTTP round trip: sends the request, then passes the answer to `read`. The limits apply until `read` has ended.
 *
 * @throws NetworkError if the server gave no complete answer
 * @throws the signal's reason if it is aborted
 */
export function roundTrip<R>(options: RoundTripOptions, read: (response: IncomingMessage) => Promise<R>): Promise<R> {
  const { secure, signal, clock, timeoutMs, usedSockets } = options;
  return new Promise<R>((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    let sent = false;
    let reused = false;
    let answered = false;
    let timedOut = false;
    let settled = false;
    const { host, port, agent, method, path, headers } = options;
    const parameters: RequestOptions = { host, port, agent, method, path, headers };
    const request = secure ? requestOverHttps(parameters) : requestOverHttp(parameters);

    function settle(): boolean {
      if (settled) return false;
      settled = true;
      cancelTimeout();
      ignoreAbort();
      return true;
    }
    function abort(): void {
      if (!settle()) return;
      request.destroy();
      reject(signal?.reason);
    }
    function fail(cause: unknown): void {
      if (!settle()) return;
      request.destroy();
      const what = cause instanceof Error ? cause.message : String(cause);
      const message = `Cannot ${method} ${secure ? "https" : "http"}://${host}:${port}${path}: ${what}`;
      const connectionWasStale = reused && !answered && !timedOut;
      reject(new NetworkError(message, { cause, requestWasSent: sent, connectionWasStale }));
    }

    const deadline = clock.now() + timeoutMs;
    const cancelTimeout = clock.after(timeoutMs, endLate);
    function endLate(): void {
      timedOut = true;
      fail(new Error(`no answer within ${timeoutMs} ms`));
    }
    const ignoreAbort = onAbort(signal, abort);
    request.on("socket", (socket) => {
      // Node does not set its own flag if a request had to wait for its connection.
      reused = usedSockets.has(socket);
      usedSockets.add(socket);
      // If it is set, Deno 2.9 repeats a request that fails or is aborted, even one that is not a GET.
      request.reusedSocket = false;
      // A request that was aborted can leave its connection in the middle of the handshake.
      if (!socket.connecting && (socket as { secureConnecting?: boolean }).secureConnecting !== true) send();
      else socket.once(secure ? "secureConnect" : "connect", send);
    });
    /** Call it when the connection is ready: earlier data would be sent then, even after the deadline. */
    function send(): void {
      if (settled) return;
      // If this process was suspended, the connection can be ready before the timer runs.
      if (clock.now() >= deadline) {
        endLate();
        return;
      }
      sent = true;
      // Pass the body as one string, so that head and body are sent in one packet.
      if (options.body === undefined) request.end();
      else request.end(options.body);
    }
    request.on("error", fail);
    request.on("upgrade", (_response, socket) => {
      // Without this handler, Node closes the connection without an error.
      socket.destroy();
      fail(new Error("the server wants to speak another protocol"));
    });
    request.on("response", (response) => {
      answered = true;
      read(response).then((result) => {
        if (settle()) resolve(result);
      }, fail);
    });
  });
}

/** A body with more bytes than its reader takes. */
export class BodyTooLargeError extends Error {
  override readonly name = "BodyTooLargeError";
}

/**
 * The whole body of an answer.
 *
 * @throws Error if the connection ends before the body does
 */
export function readBody(response: IncomingMessage, limit = Number.POSITIVE_INFINITY): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    response.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) reject(new BodyTooLargeError(`its answer is larger than ${limit} bytes`));
      else chunks.push(chunk);
    });
    response.on("end", () =>
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)),
    );
    response.on("error", reject);
    response.on("close", () => {
      if (!response.complete) reject(new Error("the connection ended in the middle of the answer"));
    });
  });
}
