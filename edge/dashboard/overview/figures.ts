import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** Figures of the last hour; a figure without data is undefined. */
export interface Figures {
  /** For each minute. */
  readonly claims: readonly number[];
  /** In the last complete minute. */
  readonly perMinute: number;
  /** For each minute, in percent of its claims. */
  readonly hits: readonly (number | null)[];
  /** Of the hour, in percent. */
  readonly hitRate: number | undefined;
  readonly errors: readonly number[];
  readonly errorsPerMinute: number;
  readonly sources: ApiTypes["ClaimHistory"]["sources"];
  /** p99 of the source with the most claims. */
  readonly p99Ms: number | undefined;
}

/** Computes the figures from the history of one edge replica. */
export function figuresOf({ sources, errors }: ApiTypes["ClaimHistory"]): Figures {
  const all = sums(sources.map(({ claims }) => claims));
  const warm = sums(sources.filter(({ source }) => source.startsWith("pool")).map(({ claims }) => claims));
  const total = sum(all);
  const used = sources.filter(({ hour }) => hour.claims > 0);
  const most = used.toSorted((a, b) => b.hour.claims - a.hour.claims)[0];
  return {
    claims: all,
    perMinute: lastWhole(all),
    hits: all.map((count, at) => (count === 0 ? null : Math.round(((warm[at] ?? 0) / count) * 1000) / 10)),
    hitRate: total === 0 ? undefined : (sum(warm) / total) * 100,
    errors,
    errorsPerMinute: lastWhole(errors),
    sources: used,
    p99Ms: most?.hour.p99Ms ?? undefined,
  };
}

/** The newest minute is incomplete; use it only if it is the only one. */
function lastWhole(series: readonly number[]): number {
  return series.at(-2) ?? series.at(-1) ?? 0;
}

function sum(series: readonly number[]): number {
  return series.reduce((total, one) => total + one, 0);
}

function sums(series: readonly (readonly number[])[]): number[] {
  const length = Math.max(0, ...series.map((one) => one.length));
  return Array.from({ length }, (_, at) => sum(series.map((one) => one[at] ?? 0)));
}
