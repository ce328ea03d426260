import type { IncomingMessage } from "node:http";
import type { KubernetesObject, Status } from "../kubernetes.ts";
import { type ApiError, NetworkError } from "./api-error.ts";
import type { Clock } from "./clock.ts";
import { cutManagedFields } from "./cut-managed-fields.ts";
import { createLineSplitter } from "./line-splitter.ts";
import { onAbort } from "./on-abort.ts";
import { apiErrorOf } from "./parse-answer.ts";

export interface ObjectEvent<T extends KubernetesObject> {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: T;
}

/** One line of a watch: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes */
type WatchEvent<T extends KubernetesObject> = ObjectEvent<T> | { readonly type: "ERROR"; readonly object: Status };

/** Why a watch ended: by the server, by the network or its silence, by an ERROR event, or because it made no sense. */
export type WatchEnd =
  | { readonly kind: "closed" }
  | { readonly kind: "aborted" }
  | { readonly kind: "cut" | "garbled"; readonly error: Error }
  | { readonly kind: "error-event"; readonly error: ApiError };

export interface WatchStreamOptions<T extends KubernetesObject> {
  /** Called in order, as the bytes arrive. What it throws ends the watch as garbled. */
  readonly onEvent: (event: ObjectEvent<T>) => void;
  readonly onBytes: () => void;
  /** After so many milliseconds without a byte the stream counts as dead. */
  readonly maxSilenceMs: number;
  readonly path: string;
  readonly signal: AbortSignal;
  readonly clock: Clock;
}

/** The kernel finds a peer that is gone by itself, long before the silence does. */
const keepAliveProbeMs = 15_000;

/** Reads a watch until it ends, and says why it did. */
export function readWatchStream<T extends KubernetesObject>(
  response: IncomingMessage,
  options: WatchStreamOptions<T>,
): Promise<WatchEnd> {
  const { onEvent, onBytes, maxSilenceMs, path, signal, clock } = options;
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
      // Ended by the server, the connection can serve the next watch.
      if (reason.kind !== "closed") response.destroy();
      resolve(reason);
    }
    function cut(what: string, cause?: unknown): void {
      end({
        kind: "cut",
        error: new NetworkError(`Cannot go on with GET ${path}: ${what}`, { cause, requestWasSent: true }),
      });
    }
    function guard(): void {
      const silentMs = clock.now() - lastBytesAt;
      if (silentMs >= maxSilenceMs) cut(`not a byte for ${silentMs} ms`);
      else cancelGuard = clock.after(maxSilenceMs - silentMs, guard);
    }
    function read(line: Buffer): void {
      if (ended) return;
      const event = JSON.parse(cutManagedFields(line).toString("utf8")) as WatchEvent<T>;
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
      onBytes();
      try {
        splitter.push(chunk);
      } catch (error) {
        end({ kind: "garbled", error: error instanceof Error ? error : new Error(String(error)) });
      }
    });
    response.on("end", () => end({ kind: "closed" }));
    response.on("error", (cause) => cut(cause.message, cause));
    response.on("close", () => cut("the connection ended"));
    response.socket?.setKeepAlive?.(true, keepAliveProbeMs);
    if (signal.aborted) end({ kind: "aborted" });
  });
}
