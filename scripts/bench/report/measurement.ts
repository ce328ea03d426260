import type { ServerCounts } from "../environment/server-counts.ts";
import type { MachineShare } from "../environment/usage.ts";

/** The precision of the highest rate, in claims per second. */
export const FINEST_STEP = 5;

/** One rate that was tried. */
export interface RateStep {
  /** Claims a second. */
  readonly perSecond: number;
  readonly planned: number;
  /** Fewer than planned if it was clear before the end that the rate is not held. */
  readonly sent: number;
  /** A percentile of the claims sent; null if it is a failed claim. */
  readonly p99Ms: number | null;
  readonly failed: number;
  /** Claims that were not served from the pool. */
  readonly missed: number;
  readonly held: boolean;
}

/** The results of one measured path. */
export interface Measurement {
  readonly path: string;
  /** Milliseconds, one per claim in the order sent. `Infinity` for a claim that failed or got no response. */
  readonly samplesMs: readonly number[];
  /**
   * If not every sample was kept: how many there were in total, and how many of them failed.
   */
  readonly whole?: { readonly n: number; readonly failed: number };
  /** Milliseconds of the bare calls that the path needs at least, measured in the same run. */
  readonly floorMs?: readonly number[];
  /**
   * Claims that were not served by the measured path, such as cold starts because the pool was empty. Their times
   * count.
   */
  readonly missed: number;
  /** Why claims failed, and how many. */
  readonly failures: Readonly<Record<string, number>>;
  /**
   * CPU time of each program during the measurement, including the refill of the pool. Only for paths without pauses.
   */
  readonly cpuMs?: Readonly<Record<string, number>>;
  /** Resident memory of each program at the end, in MiB. */
  readonly rssMb?: Readonly<Record<string, number>>;
  readonly machine?: MachineShare;
  /** The API server's work per claim under the load of the path, including the refill. */
  readonly server?: ServerCounts;
  /** Operations per second, if the path is a rate. */
  readonly perSecond?: number;
  /** The tried rates in order, if the path looks for the highest. */
  readonly steps?: readonly RateStep[];
  /** What a reader must know to judge it. */
  readonly note?: string;
}
