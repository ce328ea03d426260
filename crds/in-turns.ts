/**
 * Does the work for each item, at most `atOnce` at a time. The results are in the order of the items.
 *
 * @throws what the work throws; later items are not begun then
 */
export async function inTurns<T, R>(
  all: readonly T[],
  work: (one: T) => Promise<R>,
  { atOnce = 16 }: { atOnce?: number } = {},
): Promise<R[]> {
  const results: R[] = [];
  for (let from = 0; from < all.length; from += atOnce) {
    results.push(...(await Promise.all(all.slice(from, from + atOnce).map(work))));
  }
  return results;
}
