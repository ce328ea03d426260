import { readFileSync } from "node:fs";

/** How the machine's CPU time was spent during a measurement, as shares of the total. */
export interface MachineShare {
  readonly idle: number;
  /** The share of programs that are not measured: they make every time longer. */
  readonly others: number;
}

/** @param oursMs CPU time of all measured programs between the two readings, in milliseconds */
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

/** The usage of a program. */
export interface ProgramUsage {
  /** CPU time (user and system) in milliseconds: since its start, or the difference of two readings. */
  readonly cpuMs: number;
  /** Resident memory, in MiB. */
  readonly rssMb: number;
}

/** The usage of a process since its start, from /proc. @throws Error if there is no such process */
export function processUsage(pid: number): ProgramUsage {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The command in parentheses may contain blanks and parentheses. So the fields begin after the last parenthesis.
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
  /** The sum of all series of that name with the given labels; 0 if there are none. */
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
 * A quantile of what a histogram has counted between two readings, in the histogram's unit. It is interpolated within a
 * bucket, like PromQL's `histogram_quantile`. It is NaN if nothing was counted, and the last bound for values beyond
 * it.
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
