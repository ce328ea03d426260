import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { LoadClient } from "../load/load-client.ts";
import type { MeasuredProgram } from "./measured-program.ts";
import type { ProgramUsage } from "./usage.ts";

/** A cluster with operator and edge on it, each a process of its own, and what a bench does to them. */
export interface BenchEnvironment {
  /** Of Kubernetes, such as `v1.34.10`. */
  readonly version: string;
  readonly kubeconfigPath: string;
  /** Logs, profiles and whatever else goes with the environment. */
  readonly folder: string;
  /** The bench's own calls to the API server. */
  readonly client: ClusterClient;
  readonly edge: LoadClient;
  /** The one that runs now. */
  operator(): MeasuredProgram;
  /** Stops the operator, starts another in its place and returns that, without waiting until it is ready. */
  restartOperator(): Promise<MeasuredProgram>;
  /** What every program has used so far, by name. */
  usage(): Promise<Record<string, ProgramUsage>>;
  stop(): Promise<void>;
}

/** Where operator and edge have their objects. */
export const NAMESPACE = "tenancy";

/** Where the bare calls have theirs, so that the operator does not act on them. */
export const FLOOR_NAMESPACE = "bench-floor";
