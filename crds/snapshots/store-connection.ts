import { createHash } from "node:crypto";
import { type IncomingMessage, type RequestOptions, request as requestOverHttp } from "node:http";
import { request as requestOverHttps } from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import * as v from "valibot";
import { ArchiveError } from "../archive/archive-error.ts";
import { NetworkError } from "../client/api-error.ts";
import { type Clock, systemClock } from "../client/clock.ts";
import { limitConnect } from "../client/limit-connect.ts";
import { onAbort, sleep } from "../waits.ts";
import { type LimitCall, limitCalls } from "./limit-calls.ts";
import type { SnapshotKey } from "./snapshot-key.ts";
import { QuotaError, type StoreCall, StoreConflict, StoreError, StoreFullError } from "./snapshot-store.ts";
import { endSchema, errorSchema, MARK, receivedSchema, TOKEN } from "./store-protocol.ts";

/** The server's current address, and how to reach it. */
export interface StoreEndpoint {
  readonly secure: boolean;
  /** Host, port and agent; for TLS also the only trusted certificate and the name in it. */
  readonly options: RequestOptions & { readonly servername?: string };
  /** The prefix of the protocol's paths, if an API server forwards the requests. @default "" */
  readonly prefix?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly token: string;
  /** Called if the server does not respond or refuses the token: the next endpoint must not come from the cache. */
  forget?(): void;
}

const MOST_TRIES = 3;
const RETRY_MS = 200;
const MOST_RETRY_MS = 1000;
/** The address may belong to a deleted pod, and then nothing responds. */
const CONNECT_MS = 5000;
/** A connection without any traffic for this long counts as lost. */
const SILENCE_MS = 60_000;
const MOST_LINE_BYTES = 256 * 1024;
/** Characters of another server's response that an error shows. */
const MOST_SAID = 300;

export interface Asked {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Buffer | AsyncIterable<Uint8Array> | undefined;
  readonly signal: AbortSignal;
}

/** Without a digest, only the number of bytes is checked. */
export interface ExpectedBytes {
  readonly sizeBytes: number;
  readonly sha256: string | undefined;
}

/** Bytes that are being read, and their head. See `OpenArchive`. */
export interface OpenBytes<T> {
  readonly head: T;
  readonly content: AsyncIterable<Uint8Array>;
  close(): void;
}

/** Requests to a snapshots server. They work on Node, Bun and Deno. */
export interface StoreConnection {
  ask<T extends v.GenericSchema>(schema: T, asked: Asked): Promise<v.InferOutput<T>>;
  /** The lines of a response. Its last line has the number of lines and the key that the next page starts after. */
  askLines(asked: Asked): Promise<{ readonly lines: unknown[]; readonly next: SnapshotKey | undefined }>;
  /** Sends bytes, and checks that the server received the same bytes. */
  send(
    content: AsyncIterable<Uint8Array>,
    asked: Omit<Asked, "method" | "body">,
  ): Promise<{ sha256: string; sizeBytes: number }>;
  /** Opens bytes that follow a line with their head; undefined if the line is empty. */
  openBytes<T extends { readonly expected: ExpectedBytes }>(
    path: string,
    call: StoreCall & Pick<Asked, "headers"> & { readonly readHead: (line: string) => T | undefined },
  ): Promise<OpenBytes<T> | undefined>;
  /**
   * Repeats a call that got no response, so the call must be safe to repeat. If the connection is refused, repeats for
   * `startMs`.
   */
  repeat<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T>;
  readonly limited: LimitCall;
}

/**
 * @param options.endpoint called before each request, since another pod soon gets the address of a deleted pod
 * @param options.startMs how long a program that starts may refuse connections. Default: 0
 */
export function createStoreConnection(options: {
  endpoint: (signal: AbortSignal) => Promise<StoreEndpoint>;
  startMs?: number;
  clock?: Clock | undefined;
}): StoreConnection {
  const { endpoint, startMs = 0, clock = systemClock } = options;
  const limited = limitCalls({ verb: "ask the snapshots server", clock });

  /** Sends a request, and returns the head of the response. The same signal also limits the reading of the body. */
  async function open(asked: Asked): Promise<IncomingMessage> {
    const at = await endpoint(asked.signal);
    const response = await exchange(asked, at).catch((error: unknown) => {
      if (error instanceof NetworkError) at.forget?.();
      throw error;
    });
    const isServer = response.headers[MARK] !== undefined;
    if (!isServer || response.statusCode === 401) at.forget?.();
    if (!isServer) {
      const said = await beginningOf(response);
      throw new StoreError(
        `the snapshots server cannot be reached: another server responded ${response.statusCode} ${said}`.trimEnd(),
        { isTransient: true },
      );
    }
    if (response.statusCode === 200) return response;
    try {
      throw refusalOf(response, await readAll(response));
    } finally {
      // The rest of the body is not sent.
      if (asked.body !== undefined && !Buffer.isBuffer(asked.body)) response.destroy();
    }
  }

  async function ask<T extends v.GenericSchema>(schema: T, asked: Asked): Promise<v.InferOutput<T>> {
    return v.parse(schema, JSON.parse((await readAll(await open(asked))).toString("utf8")));
  }

  async function repeat<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
    const began = clock.now();
    for (let tries = 1; ; tries += 1) {
      try {
        return await call();
      } catch (error) {
        const isStarting = isRefused(error) && clock.now() - began < startMs;
        if (!(error instanceof NetworkError) || (tries >= MOST_TRIES && !isStarting)) throw error;
        await sleep(Math.min(RETRY_MS * tries, MOST_RETRY_MS), { clock, signal });
      }
    }
  }

  return {
    ...{ ask, repeat, limited },

    async askLines(asked) {
      const body = await readAll(await open(asked));
      const lines = body.toString("utf8").split("\n").slice(0, -1);
      const last = v.safeParse(endSchema, JSON.parse(lines.pop() ?? "{}"));
      if (!last.success || last.output.end !== lines.length) throw cut("the list is incomplete");
      return { lines: lines.map((line): unknown => JSON.parse(line)), next: last.output.next };
    },

    async send(content, asked) {
      const hash = createHash("sha256");
      let sizeBytes = 0;
      async function* counted(): AsyncGenerator<Uint8Array> {
        for await (const piece of content) {
          hash.update(piece);
          sizeBytes += piece.length;
          yield piece;
        }
      }
      const { received } = await ask(receivedSchema, { ...asked, method: "PUT", body: counted() });
      const sha256 = hash.digest("hex");
      if (received?.sha256 !== sha256 || received.sizeBytes !== sizeBytes) {
        throw new StoreError("Cannot store it: the server received other bytes than were sent", { isTransient: true });
      }
      return { sha256, sizeBytes };
    },

    openBytes: (path, { readHead, headers, ...call }) =>
      // The time limit includes the reading.
      new Promise((resolve, reject) => {
        limited(call, async (signal) => {
          const response = await repeat(signal, () => open({ method: "GET", path, headers, signal }));
          const content = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
          const begun = await readBegin(content, readHead).catch((error: unknown) => {
            response.destroy();
            throw error;
          });
          if (begun === undefined) {
            response.destroy();
            resolve(undefined);
            return;
          }
          const { head, rest } = begun;
          const ended = new Promise<void>((end) => response.once("close", end));
          const close = (): void => void response.destroy();
          resolve({ head, content: checked({ first: rest, content, expected: head.expected, response }), close });
          await ended;
        }).catch(reject);
      }),
  };
}

/** Reads the line before the bytes; undefined if it says that there are none. */
async function readBegin<T>(
  content: AsyncIterator<Buffer>,
  readHead: (line: string) => T | undefined,
): Promise<{ head: T; rest: Buffer } | undefined> {
  const { line, rest } = await readLine(content);
  if (line === "") return undefined;
  const head = readHead(line);
  if (head !== undefined) return { head, rest };
  throw new StoreError("the snapshots server's response cannot be read", { isTransient: false });
}

/**
 * Sends one request, and waits for the head of the response.
 *
 * @throws NetworkError, the body's error, the signal's reason
 */
function exchange({ method, path, headers, body, signal }: Asked, at: StoreEndpoint): Promise<IncomingMessage> {
  const { secure, options, prefix = "", token } = at;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const isBuffer = Buffer.isBuffer(body);
    const sent: Record<string, string> = { ...at.headers, ...headers, [TOKEN]: token };
    if (isBuffer || body === undefined) sent["content-length"] = String(isBuffer ? body.length : 0);
    const all: RequestOptions = { ...options, method, path: prefix + path, headers: sent };
    const request = secure ? requestOverHttps(all) : requestOverHttp(all);
    let bodyError: unknown;
    let wasSent = false;
    const ignoreAbort = onAbort(signal, () => {
      request.destroy();
      fail(signal.reason);
    });
    function fail(error: unknown): void {
      ignoreAbort();
      const network = (cause: unknown) =>
        new NetworkError(`Cannot ask the snapshots server: ${cause instanceof Error ? cause.message : cause}`, {
          cause,
          requestWasSent: wasSent && !isConnectionRefused(cause),
        });
      reject(signal.aborted ? signal.reason : (bodyError ?? network(error)));
    }
    request.setTimeout(SILENCE_MS, () => request.destroy(new Error(`no traffic for ${SILENCE_MS / 1000} s`)));
    limitConnect(request, CONNECT_MS);
    request.on("socket", () => (wasSent = true));
    request.on("error", fail);
    request.on("response", (response) => {
      // The signal also ends the reading of the body.
      const ignore = onAbort(signal, () => response.destroy(signal.reason));
      response.once("close", ignore);
      ignoreAbort();
      resolve(response);
    });
    if (isBuffer || body === undefined) {
      request.end(body);
      return;
    }
    const watched = Readable.from(noting(body), { objectMode: false, highWaterMark: 1024 * 1024 });
    pipeline(watched, request).catch(fail);

    async function* noting(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      try {
        yield* source;
      } catch (error) {
        bodyError = error;
        throw error;
      }
    }
  });
}

function isRefused(error: unknown): boolean {
  return error instanceof NetworkError && isConnectionRefused(error.cause);
}

function isConnectionRefused(cause: unknown): boolean {
  return (cause as NodeJS.ErrnoException | undefined)?.code === "ECONNREFUSED";
}

async function readAll(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  } catch (error) {
    throw cut(error instanceof Error ? error.message : String(error), error);
  }
  const body = Buffer.concat(chunks);
  // Bun reports a response that was cut off as complete.
  const announced = Number(response.headers["content-length"] ?? body.length);
  if (!response.complete || announced !== body.length) throw cut("the connection ended in the middle of the response");
  return body;
}

/** The beginning of what another server responds, for an error. An API server says there why it forwards nothing. */
async function beginningOf(response: IncomingMessage): Promise<string> {
  let read = "";
  try {
    for await (const chunk of response.setEncoding("utf8") as AsyncIterable<string>) {
      read += chunk;
      if (read.length > MOST_SAID) break;
    }
  } catch {
    // What was read until then is shown.
  }
  return read.slice(0, MOST_SAID);
}

async function readLine(content: AsyncIterator<Buffer>): Promise<{ line: string; rest: Buffer }> {
  let read: Buffer = Buffer.alloc(0);
  for (;;) {
    const end = read.indexOf(10);
    if (end !== -1) return { line: read.toString("utf8", 0, end), rest: read.subarray(end + 1) };
    const { done, value } = await next(content);
    if (done === true || read.length > MOST_LINE_BYTES) throw cut("the response ends within its first line");
    read = read.length === 0 ? value : Buffer.concat([read, value]);
  }
}

async function next(content: AsyncIterator<Buffer>): Promise<IteratorResult<Buffer>> {
  try {
    return await content.next();
  } catch (error) {
    throw cut(error instanceof Error ? error.message : String(error), error);
  }
}

/** Passes bytes on. Fails at their end if they are not what was stored. */
async function* checked(options: {
  first: Buffer;
  content: AsyncIterator<Buffer>;
  expected: ExpectedBytes;
  response: IncomingMessage;
}): AsyncGenerator<Uint8Array> {
  const { first, content, expected, response } = options;
  const hash = createHash("sha256");
  let bytes = 0;
  try {
    for (let piece: Buffer | undefined = first; piece !== undefined; ) {
      hash.update(piece);
      bytes += piece.length;
      if (piece.length > 0) yield piece;
      const { done, value } = await next(content);
      piece = done === true ? undefined : value;
    }
  } finally {
    // After a response that was read to its end, the next request uses the connection.
    if (!response.readableEnded) response.destroy();
  }
  if (bytes !== expected.sizeBytes) throw cut(`only ${bytes} of ${expected.sizeBytes} bytes arrived`);
  if (expected.sha256 !== undefined && hash.digest("hex") !== expected.sha256) {
    throw new ArchiveError("Corrupt", "its SHA-256 is not the one that was recorded");
  }
}

function refusalOf({ statusCode = 0 }: IncomingMessage, body: Buffer): Error {
  const read = v.safeParse(errorSchema, parseJson(body));
  if (!read.success) return new StoreError(`the snapshots server responded ${statusCode}`, { isTransient: true });
  const { error, kind, reason, isTransient = false } = read.output;
  switch (kind) {
    case "conflict":
      return new StoreConflict(error);
    case "archive":
      return new ArchiveError(reason ?? "Corrupt", error);
    case "quota":
      return new QuotaError(error);
    case "full":
      return new StoreFullError(error);
    case "store":
    case "request":
      return new StoreError(error, { isTransient });
    default:
      return kind satisfies never;
  }
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

function cut(why: string, cause?: unknown): NetworkError {
  return new NetworkError(`Cannot read the snapshots server's response: ${why}`, { cause, requestWasSent: true });
}
