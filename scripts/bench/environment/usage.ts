import { readFileSync } from "node:fs";

/** Where the machine's CPU time went while something was measured, as shares of all of it. */
export interface MachineShare {
  readonly idle: number;
  /** To programs that are not part of what is measured: they make every time longer. */
  readonly others: number;
}

/** @param oursMs CPU time of all measured programs between the two looks, in milliseconds */
export function machineShare(before: MachineTime, after: MachineTime, oursMs: number): MachineShare {
  const totalMs = after.totalMs - before.totalMs;
  if (totalMs <= 0) return { idle: 0, others: 0 };
  const idleMs = after.idleMs - before.idleMs;
  return { idle: idleMs / totalMs, others: Math.max(0, totalMs - idleMs - oursMs) / totalMs };
}

/** Time of all cores together since the machine's start, in milliseconds. */
interface MachineTime {
  readonly totalMs: number;
  readonly idleMs: number;
}

// USER_HZ, which the kernel shows times to programs in, is 100 on every architecture that Linux has in use.
const TICK_MS = 10;

/**
 * Reads it from /proc/stat, https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat
 */
export function machineTime(stat: string = readFileSync("/proc/stat", "utf8")): MachineTime {
  // user nice system idle iowait irq softirq steal; the guests' times that follow are part of user and nice.
  const ticks = stat.slice(0, stat.indexOf("\n")).trim().split(/\s+/).slice(1, 9).map(Number);
  const [, , , idle = 0, iowait = 0] = ticks;
  return { totalMs: ticks.reduce((sum, count) => sum + count, 0) * TICK_MS, idleMs: (idle + iowait) * TICK_MS };
}

/** What a program has used. */
export interface ProgramUsage {
  /** CPU time, user and system, in milliseconds: since its start, or as a difference of two such. */
  readonly cpuMs: number;
  /** Resident memory, in MiB. */
  readonly rssMb: number;
}

/** What a process has used since its start, from /proc. @throws Error when there is no such process */
export function processUsage(pid: number): ProgramUsage {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The command in parentheses may hold blanks and parentheses itself: the fields begin after the last one.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [userTicks, systemTicks] = [Number(fields[11]), Number(fields[12])];
  const rssKb = Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  return { cpuMs: (userTicks + systemTicks) * TICK_MS, rssMb: rssKb / 1024 };
}

interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Metrics as a program showed them at one moment. */
export interface MetricsText {
  /** Sum of all series of that name whose labels are as told; 0 without any. */
  sum(name: string, labels?: Readonly<Record<string, string>>): number;
  /** Each series of that name. */
  series(name: string): Pick<Series, "labels" | "value">[];
}

/** Reads the Prometheus text format, https://prometheus.io/docs/instrumenting/exposition_formats/ */
export function parseMetrics(text: string): MetricsText {
  const series: Series[] = [];
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (name !== undefined) series.push({ name, labels: parseLabels(labels), value: Number(value) });
  }
  return {
    series: (name) => series.filter((one) => one.name === name),
    sum(name, labels = {}) {
      const wanted = Object.entries(labels);
      return series
        .filter((one) => one.name === name && wanted.every(([key, value]) => one.labels[key] === value))
        .reduce((total, { value }) => total + value, 0);
    },
  };
}

function parseLabels(text: string): Record<string, string> {
  return Object.fromEntries([...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value]));
}

/**
 * The time below which a share of what a histogram has counted between two looks lies, in its own unit: between the
 * bounds of a bucket in proportion, as PromQL's `histogram_quantile`. NaN where nothing was counted, the last bound for
 * what lies beyond it.
 */
export function histogramQuantile(
  before: MetricsText,
  after: MetricsText,
  { name, labels = {}, share }: { name: string; labels?: Readonly<Record<string, string>>; share: number },
): number {
  const bounds = [...new Set(after.series(`${name}_bucket`).map(({ labels: { le = "" } }) => le))]
    .map((le) => ({ le, bound: le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le) }))
    .sort((a, b) => a.bound - b.bound);
  const countTo = ({ le }: { le: string }) =>
    after.sum(`${name}_bucket`, { ...labels, le }) - before.sum(`${name}_bucket`, { ...labels, le });
  const all = bounds.at(-1);
  const rank = all === undefined ? 0 : countTo(all) * share;
  if (rank === 0) return Number.NaN;
  let low = { bound: 0, count: 0 };
  for (const one of bounds) {
    const high = { bound: one.bound, count: countTo(one) };
    if (high.count >= rank) {
      if (high.bound === Number.POSITIVE_INFINITY) return low.bound;
      return low.bound + ((high.bound - low.bound) * (rank - low.count)) / (high.count - low.count);
    }
    low = high;
  }
  return low.bound;
}
