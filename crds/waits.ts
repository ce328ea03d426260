import { setMaxListeners } from "node:events";
import type { Clock } from "./client/clock.ts";

/** Calls back once when the signal is aborted; the function it returns ends that. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => undefined;
  // A process has one signal to stop by, and many calls under way that listen to it: that is no leak, as Node 20 takes it for.
  setMaxListeners(0, signal);
  signal.addEventListener("abort", callback, { once: true });
  return () => signal.removeEventListener("abort", callback);
}

/**
 * Waits `delayMs` milliseconds.
 *
 * @throws the signal's reason as soon as it is aborted
 */
export function sleep(delayMs: number, options: { clock: Clock; signal?: AbortSignal | undefined }): Promise<void> {
  const { clock, signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const cancel = clock.after(delayMs, () => {
      ignoreAbort();
      resolve();
    });
    const ignoreAbort = onAbort(signal, () => {
      cancel();
      reject(signal?.reason);
    });
  });
}

export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(reason: unknown): void;
}

/** A promise that is settled from outside. A rejection that nobody waits for is not an error of its own. */
export function createDeferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  promise.catch(ignore);
  return { promise, resolve, reject };
}

function ignore(): void {
  // Whoever waits for the promise still gets the rejection; this only says that nobody has to.
}
