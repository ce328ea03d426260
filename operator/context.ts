import type { BuildContexts } from "../crds/builds/build-contexts.ts";
import type { Claim } from "../crds/claim.ts";
import type { Cluster } from "../crds/client/cluster.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { EventRecorder } from "../crds/client/event-recorder.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import type { ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import type { Pod } from "../crds/kubernetes.ts";
import type { Log } from "../crds/log.ts";
import type { SnapshotMetadata } from "../crds/snapshots/snapshot-metadata.ts";
import type { BackgroundWork } from "./background-work.ts";
import type { BuildTurns } from "./builds/build-turns.ts";
import type { ClaimTraces } from "./claim/claim-traces.ts";
import type { SeenUses } from "./claim/release-when-idle.ts";
import type { ServiceWatch } from "./claim/service-watch.ts";
import type { Timelines } from "./claim/timeline.ts";
import type { OperatorConfig } from "./config.ts";
import type { EnsuredEgress } from "./egress/egress-objects.ts";
import type { Informers } from "./informers.ts";
import type { Metrics } from "./metrics.ts";
import type { StartExplanations } from "./pod/explain-start.ts";
import type { NodeSilence } from "./pod/node-silence.ts";
import type { ProgramRuns } from "./pod/program-runs.ts";
import type { SeenTimes } from "./pod/seen-times.ts";
import type { PoolEvents } from "./pool/pool-events.ts";
import type { FailureRecord } from "./pool/pool-failures.ts";
import type { PoolRefusals } from "./pool/pool-refusals.ts";
import type { PromisedPods } from "./pool/promised-pods.ts";
import type { RefillPause } from "./pool/refill-pause.ts";
import type { SavedSnapshot, Snapshots } from "./snapshots/snapshots.ts";

/** What every reconciler works with. */
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
  /** Uids of warm pods that a claim is taking at this moment. */
  reservedPods: Set<string>;
  /** By pod uid, until it is repaired: a pod whose marks were edited, as it was before. */
  editedPods: Map<string, Pod>;
  poolFailures: FailureRecord;
  poolRefusals: PoolRefusals;
  poolEvents: PoolEvents;
  refillPause: RefillPause;
  promisedPods: PromisedPods;
  snapshots: Snapshots;
  contexts: BuildContexts;
  /** Undefined: no commands are run in pods but for their files. */
  exec: Exec | undefined;
  startExplanations: StartExplanations;
  /** What was found of archives, by claim and what it asks for. */
  archiveLookups: BackgroundWork<SnapshotMetadata | undefined>;
  /** By claim uid, until the claim is Active. */
  notices: Map<string, ArchiveNotice>;
  serviceWatch: ServiceWatch;
  timelines: Timelines;
  /** Undefined: nothing is traced. */
  traces: ClaimTraces | undefined;
  /** By pod uid. */
  restores: BackgroundWork<SnapshotMetadata | undefined>;
  /** By pod uid. */
  saves: BackgroundWork<SavedSnapshot>;
  /** By pod uid: whether a pod that starts again waits for files. */
  fileChecks: BackgroundWork<boolean>;
  /** Uids of pods that were bound or created in this term, into which no other operator can be restoring files. */
  ownPods: Set<string>;
  nodeSilence: NodeSilence;
  /** Of warm pods that are not ready. */
  seenTimes: SeenTimes;
  programRuns: ProgramRuns;
  /** Of pods whose files go when they are idle. */
  seenUses: SeenUses;
  /** How often in a row files could not be restored, by claim uid. */
  restoreFailures: Map<string, number>;
  /** By workload uid: the objects of its proxy. */
  ensuredEgress: Map<string, EnsuredEgress>;
  /** Contexts that are brought to builds, by the uid of the build's pod. */
  feeds: BackgroundWork<void>;
  buildTurns: BuildTurns;
  helperStart: HelperStart;
  /** Takes what an object's handler threw. */
  onFailure: ReportHandlerFailure;
  /** Asks for a reconcile of the claim. */
  enqueueClaim(claim: Claim): void;
  /** Asks for a reconcile of the workload of that name. */
  enqueueWorkload(name: string): void;
  /** The API server's time in milliseconds since the epoch: what times of objects are compared with. */
  serverNow(): number;
  /** When this term of leading began, in milliseconds of `performance.now()`. */
  startedAt: number;
  /** ISO 8601 time up to which warm pods were made that may have been given to tenants. */
  historySince: string | undefined;
  /** Whether no other operator can have taken over. */
  isLeading(): boolean;
}

/** What is said on a claim whose tenant has files that the session is not given. */
export interface ArchiveNotice {
  message: string | undefined;
  /** Whether the claim is Active by now, so that it takes a write of its own. */
  isLate: boolean;
}

/** When the helper pod begins to run. */
export interface HelperStart {
  /** What this operator makes it of; undefined until its Secret is filled. Another one is about to be replaced. */
  wanted: Pod | undefined;
  /** Whether the last try to fill its Secret, make it or replace it failed, so that one that runs may stay. */
  isFailing: boolean;
  /** Whether its volume is there, as the API server said last; undefined until it was asked. */
  hasVolume: boolean | undefined;
  /** Resolves when it next does. */
  next(): Promise<void>;
  announce(): void;
}
