import type { CountedPath } from "../audit-log.ts";
import type { CrowdSize } from "../fixtures/crowd.ts";
import type { Machine } from "./machine.ts";
import type { Row } from "./summarise.ts";

/** The output of `--json`. */
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

/** The figures of operator, edge and control plane in a growing cluster. */
export interface ScaleResult {
  readonly sizes: readonly ScaleSize[];
}

/** The figures at one size. */
export interface ScaleSize {
  /** The number of objects, by kind. */
  readonly standing: CrowdSize;
  /** The figures, by name and unit; null if one is not available. */
  readonly figures: Readonly<Record<string, number | null>>;
  /** From the start of the operator's process to the answer to a claim that waited for it. */
  readonly restartSamplesMs: readonly number[];
}
