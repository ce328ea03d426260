/**
 * Makes a call whose callers share work that has not started to read, one run at a time.
 *
 * Callers that arrive before the work reads anything share its result. Later callers share the next run, which starts
 * when this one has ended: what this one reads may be older than their call.
 *
 * @param work calls its parameter when it starts to read
 */
export function createSharedCall<T>(work: (looks: () => void) => Promise<T>): () => Promise<T> {
  let open: Promise<T> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    open ??= start();
    return open;
  };

  function start(): Promise<T> {
    const close = (): void => {
      if (open === shared) open = undefined;
    };
    const shared = last.then(() => work(close)).finally(close);
    // Its callers receive the failure; the next run only waits for its end.
    last = shared.catch(() => undefined);
    return shared;
  }
}
