import type { IncomingMessage } from "node:http";
import type { KubernetesObject, Status } from "../../kubernetes.ts";
import { acceptedType, resourcePath } from "../../resource.ts";
import { onAbort } from "../../waits.ts";
import { type ApiError, NetworkError } from "../api-error.ts";
import type { Clock } from "../clock.ts";
import type { ClusterClient } from "../cluster-client.ts";
import { cutManagedFields } from "../managed-fields.ts";
import { apiErrorOf, parseAnswer } from "../parse-answer.ts";
import type { Selection } from "./listing.ts";

export interface ObjectEvent<T extends KubernetesObject> {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: T;
}

/** One line of a watch: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes */
type WatchEvent<T extends KubernetesObject> = ObjectEvent<T> | { readonly type: "ERROR"; readonly object: Status };

/**
 * Why a watch ended: the server closed it, the signal was aborted, the network failed or was silent, it could not be
 * decoded, or the server sent an ERROR event.
 */
export type WatchEnd =
  | { readonly kind: "closed" }
  | { readonly kind: "aborted" }
  | { readonly kind: "disconnected" | "decode-error"; readonly error: Error }
  | { readonly kind: "error-event"; readonly error: ApiError };

export interface WatchStreamOptions<T extends KubernetesObject> {
  /** Called for each event, in order. If it throws, the watch ends with a decode error. */
  readonly onEvent: (event: ObjectEvent<T>) => void;
  /** The resource's `cut`. */
  readonly cut?: ((json: Buffer) => Buffer) | undefined;
  /** After so many milliseconds without a byte, the stream counts as dead. */
  readonly maxSilenceMs: number;
  readonly path: string;
  readonly signal: AbortSignal;
  readonly clock: Clock;
}

/** With keep-alive probes, the kernel finds a dead peer long before `maxSilenceMs`. */
const keepAliveProbeMs = 15_000;

/** Reads a watch until it ends, and returns why it ended. */
export function readWatchStream<T extends KubernetesObject>(
  response: IncomingMessage,
  options: WatchStreamOptions<T>,
): Promise<WatchEnd> {
  const { onEvent, cut = (json: Buffer): Buffer => json, maxSilenceMs, path, signal, clock } = options;
  return new Promise((resolve) => {
    let ended = false;
    let lastBytesAt = clock.now();
    let cancelGuard = clock.after(maxSilenceMs, guard);
    const ignoreAbort = onAbort(signal, () => end({ kind: "aborted" }));

    function end(reason: WatchEnd): void {
      if (ended) return;
      ended = true;
      cancelGuard();
      ignoreAbort();
      // If the server closed the watch, the connection can serve the next one.
      if (reason.kind !== "closed") response.destroy();
      resolve(reason);
    }
    function disconnect(what: string, cause?: unknown): void {
      end({
        kind: "disconnected",
        error: new NetworkError(`Cannot go on with GET ${path}: ${what}`, { cause, requestWasSent: true }),
      });
    }
    function guard(): void {
      const silentMs = clock.now() - lastBytesAt;
      if (silentMs >= maxSilenceMs) disconnect(`not a byte for ${silentMs} ms`);
      else cancelGuard = clock.after(maxSilenceMs - silentMs, guard);
    }
    function read(line: Buffer): void {
      if (ended) return;
      const event = JSON.parse(cutManagedFields(cut(line)).toString("utf8")) as WatchEvent<T>;
      if (event.type !== "ERROR") onEvent(event);
      else
        end({
          kind: "error-event",
          error: apiErrorOf(event.object, { status: event.object.code ?? 500, method: "GET", path }),
        });
    }

    const splitter = createLineSplitter(read);
    response.on("data", (chunk: Buffer) => {
      if (ended) return;
      lastBytesAt = clock.now();
      try {
        splitter.push(chunk);
      } catch (error) {
        end({ kind: "decode-error", error: error instanceof Error ? error : new Error(String(error)) });
      }
    });
    response.on("end", () => end({ kind: "closed" }));
    response.on("error", (cause) => disconnect(cause.message, cause));
    response.on("close", () => disconnect("the connection ended"));
    response.socket?.setKeepAlive?.(true, keepAliveProbeMs);
    if (signal.aborted) end({ kind: "aborted" });
  });
}

export interface OpenedWatch {
  readonly response: IncomingMessage;
  readonly path: string;
  readonly timeoutSeconds: number;
}

/**
 * Opens a watch of the changes after a resourceVersion, and resolves when the server has accepted it.
 *
 * @throws ApiError if the server refuses it, with status 410 if it no longer has these changes
 * @throws NetworkError
 */
export async function openWatch<T extends KubernetesObject>(
  client: ClusterClient,
  options: { selection: Selection<T>; resourceVersion: string; timeoutSeconds: number; signal: AbortSignal },
): Promise<OpenedWatch> {
  const { selection, resourceVersion, timeoutSeconds, signal } = options;
  const { resource, namespace, labelSelector, fieldSelector } = selection;
  const query = {
    watch: true,
    allowWatchBookmarks: true,
    resourceVersion,
    timeoutSeconds,
    labelSelector,
    fieldSelector,
  };
  const path = resourcePath(resource, { namespace, query });
  const accept = acceptedType(resource, "watch");
  const request = { method: "GET", path, accept, verb: "watch", resource: resource.plural, signal } as const;
  const opened = await client.transport.stream(request);
  if (opened.kind === "stream") return { response: opened.response, path, timeoutSeconds };
  parseAnswer(opened.answer, request);
  throw new Error(`Cannot watch ${path}: answered with ${opened.answer.status}`);
}

/** Longer than any event: etcd stores objects of up to 1.5 MiB, and an event contains one. */
const maxLineBytes = 64 * 1024 * 1024;

const newline = 0x0a;

interface LineSplitter {
  /** @throws Error if a line is longer than 64 MiB */
  push(chunk: Buffer): void;
}

/**
 * Splits a stream of bytes into lines, independent of the chunks. Empty lines, and a last line without its newline, are
 * left out.
 *
 * A line is valid until `onLine` returns. Lines are searched as bytes and decoded as a whole, so a character may be
 * split over two chunks, and a line of many chunks is copied only once.
 */
export function createLineSplitter(onLine: (line: Buffer) => void): LineSplitter {
  let pending: Buffer[] = [];
  let pendingBytes = 0;

  return {
    push(chunk) {
      let start = 0;
      for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
        if (pending.length === 0) {
          if (end > start) onLine(chunk.subarray(start, end));
        } else {
          pending.push(chunk.subarray(start, end));
          const line = Buffer.concat(pending, pendingBytes + end - start);
          pending = [];
          pendingBytes = 0;
          onLine(line);
        }
        start = end + 1;
      }
      if (start === chunk.length) return;
      pending.push(start === 0 ? chunk : chunk.subarray(start));
      pendingBytes += chunk.length - start;
      if (pendingBytes > maxLineBytes)
        throw new Error(`Cannot split the stream into lines: a line has ${pendingBytes} bytes`);
    },
  };
}
