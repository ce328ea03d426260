import { onAbort } from "../crds/waits.ts";

/** What the promise gives, or the signal's reason as soon as it is aborted; the promise itself goes on. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const ignoreAbort = onAbort(signal, () => reject(signal.reason));
    if (signal.aborted) reject(signal.reason);
    promise.then(resolve, reject).finally(ignoreAbort);
  });
}
