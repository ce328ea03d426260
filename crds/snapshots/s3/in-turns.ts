const REQUESTS_AT_ONCE = 16;

/** Does the work for each item, at most 16 at a time. The results are in the order of the items. */
export async function inTurns<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let from = 0; from < all.length; from += REQUESTS_AT_ONCE) {
    results.push(...(await Promise.all(all.slice(from, from + REQUESTS_AT_ONCE).map(work))));
  }
  return results;
}
