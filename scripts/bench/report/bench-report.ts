import type { CountedPath } from "../audit-log.ts";
import type { Machine } from "./machine.ts";
import type { Row } from "./summarise.ts";

/** What `--json` writes. */
export interface BenchReport {
  readonly commit: string;
  readonly startedAt: string;
  readonly quick: boolean;
  readonly seed: number;
  readonly machine: Machine;
  /** Version of Kubernetes. */
  readonly kubernetes: string;
  readonly rows: readonly Row[];
  readonly scale: ScaleResult | null;
  /** Requests to the API server, by path. */
  readonly requests: Readonly<Record<string, CountedPath>>;
}

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
