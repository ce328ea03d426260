import type { ApiTypes } from "../../api/openapi/schemas.ts";

type PoolHistory = ApiTypes["PoolHistory"];

/** A minute of a pool. */
export interface PoolMinute {
  /** When it began, in milliseconds since the epoch. */
  readonly at: number;
  readonly ready: number;
  readonly lowest: number;
  readonly refilled: number;
  readonly hits: number;
  readonly misses: number;
}

const MINUTE_MS = 60_000;

const HOUR_SECONDS = 3600;
const LEAST_SECONDS = 300;

/** The time range of a chart, in seconds: at most an hour, and less if the history is shorter. */
export function timeRange(first: number, last: number): [from: number, to: number] {
  return [Math.max(last - HOUR_SECONDS, Math.min(first, last - LEAST_SECONDS)), last];
}

/** A history for each minute, oldest first: 60 rows are readable, 360 are not. */
export function poolMinutes(history: PoolHistory): PoolMinute[] {
  const minutes = new Map<number, PoolMinute>();
  const from = Date.parse(history.since);
  for (const [step, ready] of history.ready.entries()) {
    const at = Math.floor((from + step * history.stepSeconds * 1000) / MINUTE_MS) * MINUTE_MS;
    const known = minutes.get(at);
    const of = (series: readonly number[]): number => series[step] ?? 0;
    minutes.set(at, {
      at,
      ready,
      lowest: Math.min(known?.lowest ?? Number.POSITIVE_INFINITY, of(history.lowest)),
      refilled: (known?.refilled ?? 0) + of(history.refilled),
      hits: (known?.hits ?? 0) + of(history.hits),
      misses: (known?.misses ?? 0) + of(history.misses),
    });
  }
  return [...minutes.values()];
}

/** A sentence about the pool's last hour. */
export function poolWords(history: PoolHistory): string {
  const sum = (series: readonly number[]): number => series.reduce((all, one) => all + one, 0);
  const [hits, misses, refilled] = [sum(history.hits), sum(history.misses), sum(history.refilled)];
  const claims = hits + misses;
  if (claims === 0) return `No claims used it; ${refilled} pods became ready.`;
  const rate = Math.floor((100 * hits) / claims);
  const lowest = Math.min(...history.lowest);
  return (
    `${hits} of ${claims} claims got a warm pod (${rate} %), ${misses} started cold; ${refilled} pods became ` +
    `ready; the fewest ready at once: ${lowest}.`
  );
}
