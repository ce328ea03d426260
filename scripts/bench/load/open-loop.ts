/**
 * Sends at planned times, whether or not earlier sends have ended, and waits for all of them.
 *
 * A sender that waits for responses sends less while the server is slow, and so misses the times that matter
 * (coordinated omission). Here each send gets its planned time, and its duration counts from then.
 *
 * @param arrivalsMs milliseconds from the start, ascending
 * @param send called with the number of the send and its planned time in milliseconds of `performance.now`; must not
 *   reject
 * @param isOver called before each send; `true` skips it and the rest
 */
export async function openLoop(
  arrivalsMs: readonly number[],
  options: { send(index: number, intendedAt: number): Promise<void>; isOver?: () => boolean; signal: AbortSignal },
): Promise<void> {
  const { send, isOver = () => false, signal } = options;
  const under: Promise<void>[] = [];
  const startedAt = performance.now();
  for (const [index, arrivalMs] of arrivalsMs.entries()) {
    const intendedAt = startedAt + arrivalMs;
    await until(intendedAt);
    signal.throwIfAborted();
    if (isOver()) break;
    under.push(send(index, intendedAt));
  }
  await Promise.all(under);
}

/** Timers have whole milliseconds, so the last millisecond is a busy wait on the event loop. */
async function until(at: number): Promise<void> {
  for (let leftMs = at - performance.now(); leftMs > 0; leftMs = at - performance.now()) {
    if (leftMs > 1.5) await new Promise((resolve) => setTimeout(resolve, leftMs - 1));
    else await new Promise((resolve) => setImmediate(resolve));
  }
}

/**
 * The times at which independent callers come at a mean rate: the gaps between them are exponential (a Poisson
 * process).
 *
 * @param options.perSecond mean rate
 * @param options.seconds length; the number of arrivals is itself random
 * @param options.random numbers from 0 (inclusive) to 1
 * @returns milliseconds from the start, ascending
 */
export function poissonArrivals(options: { perSecond: number; seconds: number; random: () => number }): number[] {
  const { perSecond, seconds, random } = options;
  if (!(perSecond > 0)) throw new RangeError(`Cannot plan arrivals: a rate of ${perSecond} a second is not above 0`);
  const arrivals: number[] = [];
  for (let at = gap(); at < seconds * 1000; at += gap()) arrivals.push(at);
  return arrivals;

  function gap(): number {
    return (-Math.log(1 - random()) / perSecond) * 1000;
  }
}

/** Returns a generator of numbers from 0 (inclusive) to 1 that gives the same row for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Works on every item, with a limit on how many at once. @throws the first error, after the running work has ended */
export async function inParallel<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (let index = next++; index < items.length; index = next++) await work(items[index] as Item, index);
  });
  const ended = await Promise.allSettled(workers);
  const failed = ended.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}
