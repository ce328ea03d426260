import type { CountedPath } from "../audit/counted-path.ts";
import type { Machine } from "./machine.ts";
import type { Row } from "./row.ts";
import type { ScaleResult } from "./scale-result.ts";

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
