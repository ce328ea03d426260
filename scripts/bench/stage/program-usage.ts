/** What a program has used. */
export interface ProgramUsage {
  /** CPU time, user and system, in milliseconds: since its start, or as a difference of two such. */
  readonly cpuMs: number;
  /** Resident memory, in MiB. */
  readonly rssMb: number;
}
