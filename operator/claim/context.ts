import type { Claim } from "../../crds/claim.ts";
import { configMaps } from "../../crds/client/built-in-resources.ts";
import { systemClock } from "../../crds/client/clock.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import type { Informer } from "../../crds/client/watch/informer.ts";
import { keyAt } from "../../crds/client/watch/store.ts";
import { claims } from "../../crds/kinds.ts";
import type { ConfigMap, Pod } from "../../crds/kubernetes.ts";
import type { Log } from "../../crds/log.ts";
import { type CurrentQuotas, followQuotas } from "../../crds/quotas/follow-quotas.ts";
import { QUOTAS_CONFIG_MAP } from "../../crds/quotas/tenant-quotas.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import type { Tracer } from "../../crds/tracing/tracer.ts";
import { type BackgroundWork, createBackgroundWork } from "../background-work.ts";
import type { OperatorContext } from "../context.ts";
import type { IndexedBy, StartInformer } from "../informers.ts";
import { createProgramStarter, type ProgramStarter } from "../launcher/program-starter.ts";
import { createStartExplanations, type StartExplanations } from "../pod/explain-start.ts";
import type { PoolContext } from "../pool/context.ts";
import type { RoomMemory, roomIndexes } from "../room/context.ts";
import type { SnapshotsContext } from "../snapshots/context.ts";
import type { SavedSnapshot } from "../snapshots/save-pod.ts";
import { noUsage, type UsageRecorder } from "../usage/usage-recorder.ts";
import type { ClaimEvents } from "./claim-events.ts";
import { type ClaimStatusPatch, isWaiting, needsHelper } from "./claim-status.ts";
import { type ClaimTraces, createClaimTraces } from "./claim-traces.ts";
import type { PodCheckpoints } from "./keep-checkpoints.ts";
import { createServiceWatch, type ServiceWatch } from "./service-watch.ts";
import { createTenantRoom, type TenantRoom } from "./tenant-room.ts";
import { createTimelines, type Timelines } from "./timeline.ts";

// Each is a command in a pod that takes about 50 ms.
const LOOKUPS_AT_ONCE = 16;
const FILE_CHECKS_AT_ONCE = 16;
const BACKGROUND_CHECKS_AT_ONCE = 16;
/** Each is a command in a pod, which mostly waits. */
const PROGRAM_ENDS_AT_ONCE = 64;
/** Each is a command in a pod, which waits for its program for a few seconds, or for its hook for up to a minute. */
const PROGRAM_STARTS_AT_ONCE = 256;
const LONGEST_LOOK_PAUSE_MS = 5000;

export const claimIndexes = {
  claims: {
    needsHelper: (claim: Claim) => (needsHelper(claim) ? "" : undefined),
    tenant: ({ spec }: Claim) => spec.tenantId,
    waitingFor: (claim: Claim) => (isWaiting(claim) ? claim.spec.workloadRef : undefined),
  },
};

/** The quotas of tenants, and the ConfigMap that they are read from. */
export interface QuotaCache extends CurrentQuotas {
  readonly configMap: Informer<ConfigMap, never>;
}

export function startQuotaCache(start: StartInformer, options: { namespace: string; log: Log }): QuotaCache {
  const fieldSelector = `metadata.name=${QUOTAS_CONFIG_MAP}`;
  const configMap = start({ resource: configMaps, fieldSelector, indexes: {} });
  return { configMap, ...followQuotas(configMap, options) };
}

/** Memory about claims and their pods, until these are gone. */
export interface ClaimMemory {
  /** Lookups of archives, by {@link lookupId}. */
  archiveLookups: BackgroundWork<SnapshotMetadata | undefined>;
  /** By claim uid, until the claim is Active. */
  notices: Map<string, ArchiveNotice>;
  /** By claim uid: this operator has removed the finalizer. */
  endedClaims: Set<string>;
  /** By claim uid. */
  unansweredWrites: Map<string, UnansweredWrite>;
  timelines: Timelines;
  /** Undefined if tracing is off. */
  traces: ClaimTraces | undefined;
  /** Failed restores in a row, by claim uid. */
  restoreFailures: Map<string, number>;
  /** By pod uid. */
  restores: BackgroundWork<SnapshotMetadata | undefined>;
  /** By pod uid. */
  saves: BackgroundWork<SavedSnapshot>;
  /** By pod uid. */
  checkpoints: BackgroundWork<SavedSnapshot>;
  /** By pod uid: the `preSave` of a checkpoint. It goes on if the checkpoint is given up, and is waited for. */
  preSaves: Map<string, Promise<void>>;
  /** By pod uid. */
  podCheckpoints: Map<string, PodCheckpoints>;
  /** By pod uid: programs that start with their claim; the result is the container's run in which one was started. */
  programStarts: BackgroundWork<string | undefined>;
  /** By pod uid, until the claim is Active: since when its program is started, and why it is not healthy yet. */
  programStarted: Map<string, ProgramStart>;
  programStarter: ProgramStarter;
  /** By pod uid: programs that are stopped before a save. */
  programEnds: BackgroundWork<void>;
  /** By pod uid: whether a pod that starts again waits for files. */
  fileChecks: BackgroundWork<boolean>;
  /** By pod uid: when a process last ran in the background of an idle pod. */
  backgroundChecks: BackgroundWork<number | undefined>;
  startExplanations: StartExplanations;
  room: TenantRoom;
  /** Uids of pods that were bound or created in this term: no other operator can be restoring files into them. */
  ownPods: Set<string>;
  /** By pod uid. */
  seenUses: SeenUses;
  /** Uids of claims that this operator deletes for idleness. */
  idleReleases: Set<string>;
  usage: UsageRecorder;
  /** Undefined without a sink. */
  claimEvents: ClaimEvents | undefined;
}

export interface ProgramStart {
  /** By the API server's clock, in milliseconds since the epoch. */
  since: number;
  /** Why the last attempt failed. */
  error?: Error | undefined;
  /** Whether the pod has what the claim brings; undefined before the first answer. */
  hasInputs?: boolean;
}

export interface ClaimContext extends PoolContext, SnapshotsContext, ClaimMemory {
  informers: PoolContext["informers"] &
    IndexedBy<typeof roomIndexes> &
    SnapshotsContext["informers"] &
    IndexedBy<typeof claimIndexes> & {
      readonly quotas: QuotaCache;
    };
  serviceWatch: ServiceWatch;
}

/** The message on a claim whose session does not have the files that its tenant may expect. */
export interface ArchiveNotice {
  message: string | undefined;
  /** Of the Event that says it too. @default there is none */
  readonly eventReason?: string;
  /** Whether the claim is Active already, so that the message needs a write of its own. */
  isLate: boolean;
}

/** A write of a claim's status whose answer was lost: it may be done. */
export interface UnansweredWrite {
  readonly status: ClaimStatusPatch;
  /** Is to follow the write. */
  readonly after: (written: Claim) => Promise<void> | void;
  /** The claim's before the write. */
  readonly resourceVersion: string | undefined;
}

/** The last use of each pod that this operator has seen, by pod uid. */
export type SeenUses = Map<string, SeenUse>;

export interface SeenUse {
  /** Identifies the use. */
  readonly use: string;
  /** When this operator first saw it, in milliseconds of `performance.now()`. */
  readonly since: number;
  /** Whether it is the first one of the pod that this operator has seen: it may be old. */
  readonly isFirst: boolean;
  /** When a process last ran in the background, as the idle pod answered, by the same clock. */
  readonly backgroundUsedAt?: number;
}

/** @param options.exec @default no program can be started */
export function createClaimMemory({
  config,
  exec = () => Promise.reject(new Error("this operator runs no commands in pods")),
  tracer,
}: {
  config: OperatorContext["config"];
  exec?: Exec | undefined;
  tracer?: Tracer | undefined;
}): ClaimMemory {
  const { concurrency } = config.snapshots;
  return {
    archiveLookups: createBackgroundWork({ concurrency: LOOKUPS_AT_ONCE, maximumBackoffMs: 10_000 }),
    notices: new Map(),
    endedClaims: new Set(),
    unansweredWrites: new Map(),
    timelines: createTimelines(systemClock.now),
    traces: tracer && createClaimTraces(tracer, systemClock.now),
    restoreFailures: new Map(),
    restores: createBackgroundWork({ concurrency }),
    saves: createBackgroundWork({ concurrency }),
    // Slots of their own: a release waits for no checkpoint.
    checkpoints: createBackgroundWork({ concurrency: Math.ceil(concurrency / 2) }),
    preSaves: new Map(),
    podCheckpoints: new Map(),
    programStarts: createBackgroundWork({
      concurrency: PROGRAM_STARTS_AT_ONCE,
      maximumBackoffMs: LONGEST_LOOK_PAUSE_MS,
    }),
    programStarted: new Map(),
    programStarter: createProgramStarter({ exec, namespace: config.namespace }),
    programEnds: createBackgroundWork({ concurrency: PROGRAM_ENDS_AT_ONCE }),
    fileChecks: createBackgroundWork({ concurrency: FILE_CHECKS_AT_ONCE, maximumBackoffMs: 10_000 }),
    backgroundChecks: createBackgroundWork({ concurrency: BACKGROUND_CHECKS_AT_ONCE }),
    startExplanations: createStartExplanations(),
    room: createTenantRoom(),
    ownPods: new Set(),
    seenUses: new Map(),
    idleReleases: new Set(),
    usage: noUsage,
    claimEvents: undefined,
  };
}

/**
 * Watches the claims' Services once it is opened.
 *
 * @param options.enqueue requests a reconcile of the claim of that key
 */
export function watchServices(options: {
  client: ClusterClient;
  context: Pick<ClaimContext, "config" | "informers" | "log" | "onFailure" | "enqueueClaim">;
  enqueue: (key: string) => void;
}): ServiceWatch {
  const { client, context, enqueue } = options;
  const { config, informers, log, onFailure, enqueueClaim } = context;
  const { namespace } = config;
  return createServiceWatch({
    ...{ client, namespace, onFailure, log },
    onSynced() {
      for (const claim of informers.claims.store.values()) enqueueClaim(claim);
    },
    onChange({ type, object }) {
      if (type === "added") return;
      for (const { kind, name } of object.metadata.ownerReferences ?? [])
        if (kind === claims.kind) enqueue(keyAt({ namespace, name }));
    },
  });
}

/** What a claim asks for of its archives: an answer to another question is not its answer. */
export function lookupId({ metadata, spec, status }: Claim): string {
  const { sessionSnapshot, podIncarnation = 0 } = status ?? {};
  return `${metadata.uid} ${spec.resume} ${spec.resumeVersion} ${sessionSnapshot} ${podIncarnation}`;
}

/** Call this when the claim is gone. */
export function forgetClaim(claim: Claim, memory: ClaimMemory & RoomMemory): void {
  const { uid = "" } = claim.metadata;
  memory.archiveLookups.forget(lookupId(claim));
  memory.restoreFailures.delete(uid);
  memory.notices.delete(uid);
  memory.endedClaims.delete(uid);
  memory.unansweredWrites.delete(uid);
  memory.timelines.forget(uid);
  memory.traces?.forget(uid);
  memory.room.given.delete(uid);
  memory.roomQueue.leave(uid);
  memory.idleReleases.delete(uid);
  memory.usage.forget(claim);
}

/** Call this when a pod is gone. */
export function forgetClaimPod(pod: Pod, memory: ClaimMemory): void {
  const { uid = "" } = pod.metadata;
  memory.ownPods.delete(uid);
  memory.restores.forget(uid);
  memory.saves.forget(uid);
  memory.checkpoints.forget(uid);
  memory.podCheckpoints.delete(uid);
  memory.programStarts.forget(uid);
  memory.programStarted.delete(uid);
  memory.programStarter.cancelPrestarted(pod);
  memory.programEnds.forget(uid);
  memory.fileChecks.forget(uid);
  memory.backgroundChecks.forget(uid);
  memory.startExplanations.forget(uid);
  memory.seenUses.delete(uid);
}

/** Aborts the background work, and waits for its end. */
export async function stopClaimWork(memory: ClaimMemory): Promise<void> {
  const works = [
    memory.archiveLookups,
    memory.restores,
    memory.saves,
    memory.checkpoints,
    memory.programStarts,
    memory.programEnds,
    memory.fileChecks,
    memory.backgroundChecks,
    memory.startExplanations.work,
  ];
  await Promise.all(works.map((work) => work.stop()));
  memory.programStarter.close();
}
