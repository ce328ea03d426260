import type { Cluster } from "../crds/client/cluster.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { EventRecorder } from "../crds/client/event-recorder.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import type { ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import type { Log } from "../crds/log.ts";
import type { OperatorConfig } from "./config.ts";
import type { Informers } from "./informers.ts";
import type { Metrics } from "./metrics.ts";

/** What every reconciler works with. Each subject adds its indexes and its memory, in its own `context.ts`. */
export interface OperatorContext {
  /** Refuses to write when this process does not lead. */
  cluster: Cluster;
  /** For calls that are not about objects. */
  client: Pick<ClusterClient, "request">;
  config: OperatorConfig;
  informers: Informers;
  events: EventRecorder;
  metrics: Metrics;
  log: Log;
  /** Undefined: no commands are run in pods but for their files. */
  exec: Exec | undefined;
  /** Takes what an object's handler threw. */
  onFailure: ReportHandlerFailure;
  /** The API server's time in milliseconds since the epoch: what times of objects are compared with. */
  serverNow(): number;
  /** When this term of leading began, in milliseconds of `performance.now()`. */
  startedAt: number;
  /** ISO 8601 time up to which warm pods were made that may have been given to tenants. */
  historySince: string | undefined;
  /** Whether no other operator can have taken over. */
  isLeading(): boolean;
}
