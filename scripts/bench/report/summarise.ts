import type { ServerCounts } from "../environment/server-counts.ts";
import type { Measurement, RateStep } from "./measurement.ts";

/** Requests to the API server that one claim costs. */
export interface RequestsPerClaim {
  readonly writes: number;
  readonly reads: number;
}

/**
 * Creates the row of a measurement. A failed claim ranks after every answered one, so that fast failures never improve
 * a percentile.
 *
 * @param requests the requests per claim of the path, if they were counted
 */
export function summarise(measurement: Measurement, requests?: RequestsPerClaim): Row {
  const { path, samplesMs, floorMs = [], missed, cpuMs, rssMb, server, perSecond, note, failures } = measurement;
  const sorted = samplesMs.toSorted((a, b) => a - b);
  const sortedFloor = floorMs.toSorted((a, b) => a - b);
  const at = (share: number): number => (sorted.length === 0 ? Number.NaN : percentile(sorted, share));
  const floorP50 = sortedFloor.length === 0 ? Number.NaN : percentile(sortedFloor, 0.5);
  const failed = samplesMs.filter((ms) => ms === Number.POSITIVE_INFINITY).length;
  const whole = measurement.whole ?? { n: samplesMs.length, failed };
  return {
    path,
    ...whole,
    p50Ms: finite(at(0.5)),
    p95Ms: finite(at(0.95)),
    p99Ms: finite(at(0.99)),
    maxMs: finite(at(1)),
    floorP50Ms: finite(floorP50),
    ratioP50: finite(at(0.5) / floorP50),
    writesPerClaim: requests?.writes ?? null,
    readsPerClaim: requests?.reads ?? null,
    writesWithRefill: server === undefined ? null : finite(total(server.writes)),
    missed,
    perSecond: finite(perSecond ?? Number.NaN),
    othersCpuShare: finite(measurement.machine?.others ?? Number.NaN),
    idleCpuShare: finite(measurement.machine?.idle ?? Number.NaN),
    ...(server && { server }),
    ...(measurement.steps && { steps: measurement.steps }),
    ...(note !== undefined && { note }),
    ...(Object.keys(failures).length > 0 && { failures }),
    ...(cpuMs && { cpuMsPerClaim: ofEach(cpuMs, (ms) => ms / whole.n) }),
    ...(rssMb && { rssMb: ofEach(rssMb, (mb) => mb) }),
    samplesMs: samplesMs.map(finite),
    ...(floorMs.length > 0 && { floorSamplesMs: floorMs.map(finite) }),
  };
}

function ofEach(figures: Readonly<Record<string, number>>, change: (figure: number) => number): Record<string, number> {
  return Object.fromEntries(Object.entries(figures).map(([name, figure]) => [name, finite(change(figure)) ?? 0]));
}

function total(figures: Readonly<Record<string, number>>): number {
  return Object.values(figures).reduce((sum, figure) => sum + figure, 0);
}

/** Rounds to a microsecond; null for a number that JSON cannot represent. */
export function finite(value: number): number | null {
  return Number.isFinite(value) ? Math.round(value * 1000) / 1000 : null;
}

/**
 * The value below which a share of the samples lies, by nearest rank: always one of the samples, never a mean of two.
 *
 * @param sorted samples in ascending order
 * @param share from 0 (exclusive) to 1, such as 0.99
 * @throws RangeError without samples, or if the share is out of range
 */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  if (sorted.length === 0) throw new RangeError("Cannot find a percentile: there are no samples");
  if (!(share > 0 && share <= 1)) throw new RangeError(`Cannot find a percentile: share ${share} is not in (0, 1]`);
  // 0.07 * 100 is 7.000000000000001, so subtract a small amount before rounding up.
  const rank = Math.ceil(share * sorted.length - 1e-9);
  return sorted[Math.max(rank, 1) - 1] as number;
}

/** One path in the output of `--json`. Null for a figure that does not exist, or because too many claims failed. */
export interface Row {
  readonly path: string;
  /** Claims sent. */
  readonly n: number;
  /** Claims that failed or got no response in time. */
  readonly failed: number;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
  readonly maxMs: number | null;
  readonly floorP50Ms: number | null;
  /** p50 as a multiple of the floor's. */
  readonly ratioP50: number | null;
  /** Requests to the API server by operator and edge, without the pool's refill, leases and watches. */
  readonly writesPerClaim: number | null;
  readonly readsPerClaim: number | null;
  /** All writes, including the pool's refill and the writes of scheduler and kubelet to its pods. */
  readonly writesWithRefill: number | null;
  /** Claims that were not served by the measured path. */
  readonly missed: number;
  readonly perSecond: number | null;
  /**
   * The share of the machine's CPU time that other programs used. The higher it is, the less reliable the times are.
   */
  readonly othersCpuShare: number | null;
  readonly idleCpuShare: number | null;
  /** Why the path could not be measured. */
  readonly error?: string;
  readonly note?: string;
  readonly failures?: Readonly<Record<string, number>>;
  readonly steps?: readonly RateStep[];
  /** The API server's work per claim, including the refill: under the load of the path, or idle if it has no load. */
  readonly server?: ServerCounts;
  /** CPU time of each program per claim, in milliseconds, including the refill of the pool. */
  readonly cpuMsPerClaim?: Readonly<Record<string, number>>;
  /** Resident memory of each program when the path was done, in MiB. */
  readonly rssMb?: Readonly<Record<string, number>>;
  readonly samplesMs: readonly (number | null)[];
  readonly floorSamplesMs?: readonly (number | null)[];
}

/** The row of a path that could not be measured. */
export function failedRow(path: string, error: unknown): Row {
  const row = summarise({ path, samplesMs: [], missed: 0, failures: {} });
  return { ...row, error: error instanceof Error ? error.message : String(error) };
}
