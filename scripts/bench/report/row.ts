/** One path, as `--json` writes it; null where there is no such figure, or where so many claims failed. */
export interface Row {
  readonly path: string;
  /** Claims sent. */
  readonly n: number;
  /** Of these, those that failed or were not answered in time. */
  readonly failed: number;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
  readonly maxMs: number | null;
  readonly floorP50Ms: number | null;
  /** p50 as a multiple of the floor's. */
  readonly ratioP50: number | null;
  /** Requests to the API server by operator and edge, without what refills the pool, leases and watches. */
  readonly writesPerClaim: number | null;
  readonly readsPerClaim: number | null;
  /** Claims that were answered by another way than the one measured. */
  readonly missed: number;
  readonly perSecond: number | null;
  readonly operatorCpuMsPerClaim: number | null;
  readonly edgeCpuMsPerClaim: number | null;
  /** Share of the machine's CPU time that went to programs which are not measured: the higher, the less the times say. */
  readonly othersCpuShare: number | null;
  readonly idleCpuShare: number | null;
  /** Why the path could not be measured. */
  readonly error?: string;
  readonly note?: string;
  readonly failures?: Readonly<Record<string, number>>;
  /** CPU time of each program a claim, in milliseconds, what refills the pool included. */
  readonly cpuMsPerClaim?: Readonly<Record<string, number>>;
  readonly samplesMs: readonly (number | null)[];
  readonly floorSamplesMs?: readonly (number | null)[];
}
