import type { ApiTypes } from "../../api/openapi/schemas.ts";

type Usage = ApiTypes["Usage"];

const DAY_MS = 86_400_000;
/** The API reads no more at once. */
const MOST_DAYS = 92;

/** The ranges that the page offers, by their name in the address. */
export const ranges = {
  today: "Today",
  "7d": "7 days",
  "30d": "30 days",
  month: "This month",
  "last-month": "Last month",
  days: "From, to",
} as const;

export const groups = { tenant: "tenant", workload: "workload", day: "day" } as const;

/** What is summed, in the units of a person. */
export const measures = {
  vcpu: { word: "vCPU-hours", of: ({ vcpuSeconds }: Sum) => vcpuSeconds / 3600 },
  gib: { word: "Memory, GiB-hours", of: ({ mibSeconds }: Sum) => mibSeconds / 1024 / 3600 },
  saved: { word: "Files, GiB-hours", of: ({ snapshotByteHours }: Sum) => snapshotByteHours / 1024 ** 3 },
  hours: { word: "Hours", of: ({ seconds }: Sum) => seconds / 3600 },
  sessions: { word: "Sessions", of: ({ sessions }: Sum) => sessions },
} as const;

export type Sum = Pick<Usage, "sessions" | "seconds" | "vcpuSeconds" | "mibSeconds" | "snapshotByteHours">;
export type Measure = keyof typeof measures;

/** What the page shows, as its address says. */
export interface UsageView {
  readonly range: keyof typeof ranges;
  /** Of the range `days`: the first and the last day, such as `2026-11-29`. */
  readonly first: string;
  readonly last: string;
  readonly by: keyof typeof groups;
  readonly chart: Measure;
  /** Empty for all. */
  readonly tenant: string;
  /** The sum before the first of the page; empty for the first page. */
  readonly after: string;
}

/** Days of UTC: the first one, and the day after the last one. */
export interface Days {
  readonly from: string;
  readonly to: string;
}

/**
 * Reads a view; unknown words are ignored.
 *
 * @param tenants the tenants that the caller reaches: the first of them, unless the query has one. Undefined for all
 */
export function readView(query: URLSearchParams, tenants: readonly string[] | undefined): UsageView {
  const text = (name: string): string => query.get(name) ?? "";
  return {
    range: wordIn(ranges, text("range")) ?? "30d",
    ...{ first: text("first"), last: text("last") },
    by: wordIn(groups, text("by")) ?? (tenants === undefined ? "tenant" : "workload"),
    chart: wordIn(measures, text("chart")) ?? "vcpu",
    tenant: text("tenant") || (tenants?.[0] ?? ""),
    after: text("after"),
  };
}

function wordIn<Word extends string>(words: Readonly<Record<Word, unknown>>, text: string): Word | undefined {
  return Object.hasOwn(words, text) ? (text as Word) : undefined;
}

/** The day of UTC of a time in milliseconds since the epoch. */
export function dayAt(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The days of a view; undefined if it names none, or more than the API reads at once. */
export function daysOf({ range, first, last }: Pick<UsageView, "range" | "first" | "last">, today: string) {
  switch (range) {
    case "today":
      return lastDays(1, today);
    case "7d":
      return lastDays(7, today);
    case "30d":
      return lastDays(30, today);
    case "month":
      return { from: `${today.slice(0, 7)}-01`, to: plusDays(today, 1) };
    case "last-month": {
      const to = `${today.slice(0, 7)}-01`;
      return { from: `${plusDays(to, -1).slice(0, 7)}-01`, to };
    }
    case "days": {
      if (!isDay(first) || !isDay(last)) return undefined;
      const days = { from: first, to: plusDays(last, 1) };
      const count = (Date.parse(days.to) - Date.parse(days.from)) / DAY_MS;
      return count >= 1 && count <= MOST_DAYS ? days : undefined;
    }
    default:
      return range satisfies never;
  }
}

function lastDays(count: number, today: string): Days {
  return { from: plusDays(today, 1 - count), to: plusDays(today, 1) };
}

/** Whether it is a day of this century; 30 February is none. */
function isDay(text: string): boolean {
  return /^20\d\d-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && dayAt(Date.parse(text)) === text;
}

/** A day some days later. */
export function plusDays(day: string, count: number): string {
  return dayAt(Date.parse(day) + count * DAY_MS);
}

/** A sum for each of the days: zero for days that the API leaves out. */
export function eachDay({ from, to }: Days, sums: readonly Usage[]): { day: string; sum: Sum }[] {
  const known = new Map(sums.map((sum) => [sum.day, sum]));
  const all: { day: string; sum: Sum }[] = [];
  for (let day = from; day < to; day = plusDays(day, 1)) all.push({ day, sum: known.get(day) ?? total([]) });
  return all;
}

export function total(sums: readonly Sum[]): Sum {
  const all = (of: (sum: Sum) => number): number => sums.reduce((sum, one) => sum + of(one), 0);
  return {
    sessions: all(({ sessions }) => sessions),
    seconds: all(({ seconds }) => seconds),
    vcpuSeconds: all(({ vcpuSeconds }) => vcpuSeconds),
    mibSeconds: all(({ mibSeconds }) => mibSeconds),
    snapshotByteHours: all(({ snapshotByteHours }) => snapshotByteHours),
  };
}

/** A number with three digits, or whole if it has more. */
export function amountWords(amount: number): string {
  if (amount > 0 && amount < 0.001) return "< 0.001";
  const digits = amount < 100 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 };
  return amount.toLocaleString(undefined, digits);
}

/** Such as `29 Nov`, in the order of the browser's language. */
export function dayWords(day: string): string {
  return new Date(day).toLocaleDateString([], { day: "numeric", month: "short", timeZone: "UTC" });
}
