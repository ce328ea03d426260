import type { ServerCounts } from "../environment/server-counts.ts";
import type { MachineShare } from "../environment/usage.ts";

/** To within how many claims a second the highest rate is found. */
export const FINEST_STEP = 5;

/** One rate that was tried. */
export interface RateStep {
  /** Claims a second. */
  readonly perSecond: number;
  readonly planned: number;
  /** Fewer than planned where it was plain before the end that the rate is not held. */
  readonly sent: number;
  /** Of those sent; null where that is a failed one. */
  readonly p99Ms: number | null;
  readonly failed: number;
  /** Answered by another way than from the pool. */
  readonly missed: number;
  readonly held: boolean;
}

/** What was seen while one path was measured. */
export interface Measurement {
  readonly path: string;
  /** Milliseconds, one a claim in the order sent; `Infinity` for one that failed or was never answered. */
  readonly samplesMs: readonly number[];
  /**
   * How many there were of which the samples are a part, and how many of them failed, where not every sample was kept.
   */
  readonly whole?: { readonly n: number; readonly failed: number };
  /** Milliseconds of the bare calls that the path cannot do without, measured in the same run. */
  readonly floorMs?: readonly number[];
  /**
   * Claims that were answered by another way than the one measured, as cold where the pool was empty; their times
   * count.
   */
  readonly missed: number;
  /** Why claims failed, and how many. */
  readonly failures: Readonly<Record<string, number>>;
  /**
   * CPU time of each program while it was measured, what refills the pool included; only where the path leaves no
   * pauses.
   */
  readonly cpuMs?: Readonly<Record<string, number>>;
  /** Resident memory of each program at the end, in MiB. */
  readonly rssMb?: Readonly<Record<string, number>>;
  readonly machine?: MachineShare;
  /** What one claim had the API server do under the load of the path, refill and all. */
  readonly server?: ServerCounts;
  /** Things done a second, where the path is a rate. */
  readonly perSecond?: number;
  /** The rates that were tried, in order, where the path looks for the highest. */
  readonly steps?: readonly RateStep[];
  /** What a reader must know to judge it. */
  readonly note?: string;
}
