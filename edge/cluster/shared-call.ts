/**
 * Makes a call whose callers share the work that is about to begin, one piece of work at a time.
 *
 * Who calls before the work looks at anything shares its result. Who calls later shares the next one, which starts when
 * this one has ended: what this one has seen may be older than the call.
 *
 * @param work says by its parameter that it begins to look
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
    // Its callers hear of a failure; the next work only waits for its end.
    last = shared.catch(() => undefined);
    return shared;
  }
}
