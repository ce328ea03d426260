import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** The last hour in a few figures; what nothing was measured of is undefined. */
export interface Figures {
  /** By minute. */
  readonly claims: readonly number[];
  /** Of the last minute that is over. */
  readonly perMinute: number;
  /** By minute, in percent of its claims. */
  readonly hits: readonly (number | null)[];
  /** Of the hour, in percent. */
  readonly hitRate: number | undefined;
  readonly errors: readonly number[];
  readonly errorsPerMinute: number;
  readonly sources: ApiTypes["ClaimHistory"]["sources"];
  /** Of the source with the most claims. */
  readonly p99Ms: number | undefined;
}

/** Sums up the history that one replica of the edge answers. */
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

/** The newest minute is not over yet, unless it is the only one. */
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
