import { setMaxListeners } from "node:events";
import type { Clock } from "./client/clock.ts";

/** Calls back once when the signal is aborted. The returned function removes the callback. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => undefined;
  // Many calls in progress listen to the one signal that stops the process. Node 20 would warn of a leak.
  setMaxListeners(0, signal);
  signal.addEventListener("abort", callback, { once: true });
  return () => signal.removeEventListener("abort", callback);
}

/**
 * Waits `delayMs` milliseconds.
 *
 * @throws the signal's reason if it is aborted
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

/** A promise that is settled from outside. A rejection that nothing listens to is not an error. */
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

/** Waits for the promise. Rejects with the signal's reason if the signal is aborted; the promise's work continues. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const ignoreAbort = onAbort(signal, () => reject(signal.reason));
    if (signal.aborted) reject(signal.reason);
    promise.then(resolve, reject).finally(ignoreAbort);
  });
}

/** A signal that is aborted with other signals, or by its owner. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
  /** Removes the listeners from the other signals. The owner calls it when the work is done. */
  close(): void;
}

/**
 * Creates a signal that is aborted, with the same reason, when one of the signals is. Unlike `AbortSignal.any`, it
 * leaves no listeners on signals that live as long as the process.
 */
export function linkSignals(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const unlink = signals.map((signal) => {
    if (signal?.aborted) controller.abort(signal.reason);
    return onAbort(signal, () => controller.abort(signal?.reason));
  });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    close() {
      for (const end of unlink) end();
    },
  };
}

/**
 * The first abort of several signals. The promise resolves with undefined, immediately if one is already aborted. After
 * `close`, it stays pending.
 */
export function whenAborted(signals: readonly (AbortSignal | undefined)[]): {
  readonly promise: Promise<undefined>;
  close(): void;
} {
  const linked = linkSignals(...signals);
  const promise = new Promise<undefined>((resolve) => {
    if (linked.signal.aborted) resolve(undefined);
    onAbort(linked.signal, () => resolve(undefined));
  });
  return { promise, close: linked.close };
}

/** A time limit. */
export interface Deadline {
  /** Aborted when the time is over. */
  readonly signal: AbortSignal;
  /** Stops the timer. The owner calls it when the wait is over. */
  close(): void;
}

/** Starts a time limit of `ms` milliseconds. */
export function startDeadline(ms: number, clock: Clock): Deadline {
  const controller = new AbortController();
  const cancel = clock.after(ms, () => controller.abort());
  return { signal: controller.signal, close: cancel };
}

/** The time limit was exceeded. */
export class TimeLimitError extends Error {
  override readonly name = "TimeoutError";
}

/**
 * Does the work with a signal that is aborted when the time is over or `signal` is aborted. The work must then throw
 * the signal's reason.
 *
 * @param limit.what the name of the work, for the error's message; or a function that creates the error
 * @param limit.ms milliseconds
 * @throws TimeLimitError if the time is over, or the error that `limit.what` creates
 */
export async function withTimeLimit<T>(
  limit: { what: string | (() => Error); ms: number; clock: Clock; signal?: AbortSignal | undefined },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { what, ms, clock, signal } = limit;
  signal?.throwIfAborted();
  const linked = linkSignals(signal);
  const late = () =>
    typeof what === "string" ? new TimeLimitError(`${what} took longer than ${ms / 1000} s`) : what();
  const cancel = clock.after(ms, () => linked.abort(late()));
  try {
    return await work(linked.signal);
  } finally {
    cancel();
    linked.close();
  }
}

/** Whether the promise resolves within `ms` milliseconds. @throws its error if it rejects in that time */
export async function within(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A pause that can be ended early. */
export interface Pause {
  /** Waits `delayMs` milliseconds, or until the pause is ended. @throws the signal's reason if it is aborted */
  wait(delayMs: number, signal: AbortSignal): Promise<void>;
  /** Ends the current wait. */
  end(): void;
}

export function createPause(clock: Clock): Pause {
  let current: Deferred<void> | undefined;
  return {
    async wait(delayMs, signal) {
      signal.throwIfAborted();
      const ended = createDeferred<void>();
      current = ended;
      const cancel = clock.after(delayMs, ended.resolve);
      try {
        await orAborted(ended.promise, signal);
      } finally {
        cancel();
        current = undefined;
      }
    },
    end: () => current?.resolve(),
  };
}

function ignore(): void {
  // Listeners still get the rejection; this only makes listening optional.
}
