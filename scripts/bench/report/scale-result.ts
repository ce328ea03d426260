/** How the operator does in a crowded cluster. */
export interface ScaleResult {
  /** Objects that stood there. */
  readonly pods: number;
  readonly claims: number;
  /** Resident memory of the operator that was there while all of it was made, in MiB. */
  readonly rssMb: number;
  /** The same of one that was started anew and has claimed since. */
  readonly rssAfterRestartMb: number;
  /** From the start of the operator's process to the answer to a claim that waited for it, the longest of several. */
  readonly restartMs: number;
  readonly restartSamplesMs: readonly number[];
  /** CPU time of the operator until then, which moves less with what else the machine does. */
  readonly restartCpuMs: number;
  /** CPU time of the operator a reconcile, in milliseconds, while claims were made. */
  readonly cpuMsPerReconcile: number;
}
