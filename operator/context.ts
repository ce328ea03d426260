import type { Cluster } from "../crds/client/cluster.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { EventRecorder } from "../crds/client/event-recorder.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import type { ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import type { Log } from "../crds/log.ts";
import type { OperatorConfig } from "./config.ts";
import type { Informers } from "./informers.ts";
import type { Metrics } from "./metrics.ts";

/** The context of all reconcilers. Each subject adds its indexes and its memory in its own `context.ts`. */
export interface OperatorContext {
  /** Refuses to write if this process does not lead. */
  cluster: Cluster;
  /** For requests that are not about objects, and for lists that are too long to store. */
  client: Pick<ClusterClient, "request" | "list">;
  config: OperatorConfig;
  informers: Informers;
  events: EventRecorder;
  metrics: Metrics;
  log: Log;
  /** Undefined: commands run in pods only for their files. */
  exec: Exec | undefined;
  /** Reports an error of an object's handler. */
  onFailure: ReportHandlerFailure;
  /** The API server's time in milliseconds since the epoch, to compare with times of objects. */
  serverNow(): number;
  /** When this term of leadership began, in milliseconds of `performance.now()`. */
  startedAt: number;
  /** ISO 8601 time: tenants may have used warm pods that were created up to then. */
  historySince: string | undefined;
  /** Whether it is certain that no other operator has taken over. */
  isLeading(): boolean;
}
