import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { type RawData, WebSocket } from "ws";
import { JsonBoundError, parseForeignJson } from "../../../crds/foreign-json.ts";
import { onAbort } from "../../../crds/waits.ts";
import { hostName } from "../post-json.ts";
import { DriverError, MAX_REPLY_BYTES } from "./driver.ts";

/** A message of an agent's protocol. */
export type JsonMessage = Readonly<Record<string, unknown>>;

/** An open WebSocket whose messages are JSON objects. */
export interface JsonSocket {
  send(message: JsonMessage): void;
  /**
   * Waits for the next message; only one caller at a time.
   *
   * @throws SocketEndError when the connection has ended, or was closed because a message was not a JSON object
   * @throws the signal's reason when it is aborted
   */
  receive(signal: AbortSignal): Promise<JsonMessage>;
  /** Sends the close frame and ends the connection immediately. */
  close(): void;
}

/** A connection that ended before its conversation did. */
export class SocketEndError extends Error {
  override readonly name = "SocketEndError";
  /** From the close frame; 1006 without one. https://www.rfc-editor.org/rfc/rfc6455#section-7.4 */
  readonly code: number;

  constructor(message: string, { code = 1006, cause }: { code?: number; cause?: unknown } = {}) {
    super(message, { cause });
    this.code = code;
  }
}

/** Interval of TCP keep-alive probes, which the kernel of a busy program answers. */
const KEEP_ALIVE_MS = 15_000;

const MAX_REASON_CHARACTERS = 200;

/**
 * Limit of what a container may send in one conversation, so that none can keep the gateway reading: enough for an
 * answer of 1 MiB in single tokens, or repeated whole with each of a few hundred chunks.
 */
const MAX_RECEIVED_BYTES = 256 * 1024 * 1024;

/** Minimum size that a message counts as, since each costs CPU time. */
const LEAST_MESSAGE_BYTES = 1024;

/**
 * Opens a WebSocket without compression; redirects are not followed.
 *
 * @throws DriverError if it does not open; `nothingSent` unless an HTTP server has refused it permanently
 * @throws the signal's reason when it is aborted
 */
export function openJsonSocket(options: {
  url: URL;
  headers: Readonly<Record<string, string>>;
  signal: AbortSignal;
}): Promise<JsonSocket> {
  const { url, headers, signal } = options;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const socket = new WebSocket(url, {
      perMessageDeflate: false,
      followRedirects: false,
      maxPayload: MAX_REPLY_BYTES,
      headers,
      createConnection: () =>
        connect({ host: hostName(url), port: Number(url.port) || 80 }).setKeepAlive(true, KEEP_ALIVE_MS),
    });
    // Listens from the start: the first message can arrive with the upgrade response.
    const opened = readMessages(socket);
    const ignoreAbort = onAbort(signal, () => fail(signal.reason));

    function fail(reason: unknown): void {
      ignoreAbort();
      socket.terminate();
      reject(reason);
    }
    socket.on("unexpected-response", (_request: unknown, { statusCode = 0 }: IncomingMessage) => {
      const nothingSent = statusCode >= 500;
      fail(new DriverError(`Cannot open ${url}: it answered with status ${statusCode}`, { nothingSent }));
    });
    socket.on("error", (cause) => {
      fail(new DriverError(`Cannot open ${url}: ${cause.message}`, { nothingSent: true, cause }));
    });
    socket.on("open", () => {
      ignoreAbort();
      resolve(opened);
    });
  });
}

function readMessages(socket: WebSocket): JsonSocket {
  const messages: JsonMessage[] = [];
  let end: SocketEndError | undefined;
  let notify: (() => void) | undefined;
  let received = 0;

  function count(bytes: number): void {
    received += Math.max(bytes, LEAST_MESSAGE_BYTES);
    if (received > MAX_RECEIVED_BYTES) finish(new SocketEndError("the container sent more than 256 MiB for one event"));
  }
  function finish(reason: SocketEndError): void {
    end ??= reason;
    socket.terminate();
    notify?.();
  }
  socket.on("message", (data: RawData, isBinary: boolean) => {
    const text = String(data);
    count(text.length);
    if (end !== undefined) return;
    const message = isBinary ? "a binary message" : parseObject(text);
    if (typeof message === "string") {
      finish(new SocketEndError(`the container sent ${message}`));
      return;
    }
    messages.push(message);
    notify?.();
  });
  socket.on("ping", () => count(0));
  socket.on("error", (cause) => finish(new SocketEndError(`the connection was lost: ${cause.message}`, { cause })));
  socket.on("close", (code, reason) => {
    const why = reason.length > 0 ? ` (${reason.toString("utf8").slice(0, MAX_REASON_CHARACTERS)})` : "";
    finish(new SocketEndError(`the container closed the connection with ${code}${why}`, { code }));
  });

  return {
    send: (message) => socket.send(JSON.stringify(message)),
    receive(signal) {
      return new Promise((resolve, reject) => {
        const ignoreAbort = onAbort(signal, take);
        notify = take;
        take();

        function take(): void {
          const message = messages[0];
          if (message === undefined && end === undefined && !signal.aborted) return;
          notify = undefined;
          ignoreAbort();
          if (signal.aborted) reject(signal.reason);
          else if (message === undefined) reject(end);
          else resolve(messages.shift() as JsonMessage);
        }
      });
    },
    close() {
      if (socket.readyState === socket.OPEN) socket.close(1000);
      socket.terminate();
    },
  };
}

/** The message, or a description of what the text is instead. */
function parseObject(text: string): JsonMessage | string {
  let value: unknown;
  try {
    value = parseForeignJson(text, { characters: MAX_REPLY_BYTES });
  } catch (error) {
    return error instanceof JsonBoundError ? `a message that ${error.message}` : "something other than a JSON object";
  }
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as JsonMessage) : "something other than a JSON object";
}
