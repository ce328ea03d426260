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
