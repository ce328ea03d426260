import type { CountedPath } from "../audit-log.ts";
import type { CrowdSize } from "../fixtures/crowd.ts";
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

/** How operator, edge and control plane do in a cluster that grows. */
export interface ScaleResult {
  readonly sizes: readonly ScaleSize[];
}

/** What was seen with so many objects. */
export interface ScaleSize {
  /** What stood there, by kind. */
  readonly standing: CrowdSize;
  /** By what it is and its unit; null where it could not be had. */
  readonly figures: Readonly<Record<string, number | null>>;
  /** From the start of the operator's process to the answer to a claim that waited for it. */
  readonly restartSamplesMs: readonly number[];
}
