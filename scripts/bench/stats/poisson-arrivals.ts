/**
 * The times at which independent callers come at a mean rate: the gaps between them are exponential (a Poisson process).
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
