/** The first abort of several signals. */
export interface WhenAborted {
  /** Resolves with undefined at the first abort, at once where one has happened. */
  readonly promise: Promise<undefined>;
  /** Ends the waiting; the promise then stays open. */
  close(): void;
}

/** Waits for the first abort; unlike `AbortSignal.any`, it leaves nothing behind on signals that live as long as the process. */
export function whenAborted(signals: readonly (AbortSignal | undefined)[]): WhenAborted {
  const closers: (() => void)[] = [];
  const promise = new Promise<undefined>((resolve) => {
    const done = (): void => resolve(undefined);
    for (const signal of signals) {
      if (signal?.aborted) done();
      signal?.addEventListener("abort", done, { once: true });
      closers.push(() => signal?.removeEventListener("abort", done));
    }
  });
  return {
    promise,
    close() {
      for (const close of closers) close();
    },
  };
}
