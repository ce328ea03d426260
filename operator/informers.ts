import type { Claim } from "../crds/claim.ts";
import { claimKey } from "../crds/claims/claim-key.ts";
import { configMaps, jobs, networkPolicies, pods, resourceQuotas, secrets } from "../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import { type Informer, startInformer } from "../crds/client/watch/informer.ts";
import type { ListWatchState } from "../crds/client/watch/list-watch-state.ts";
import { shareEqualParts } from "../crds/client/watch/share-equal-parts.ts";
import { claims, pools, workloads } from "../crds/kinds.ts";
import type { Job, KubernetesObject, NetworkPolicy, Pod, ResourceQuota } from "../crds/kubernetes.ts";
import { annotation, label } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import type { Pool } from "../crds/pool.ts";
import { metadataOf, type Resource } from "../crds/resource.ts";
import { SNAPSHOTS_LABELS } from "../crds/snapshots/store-folder.ts";
import { createDeferred, onAbort } from "../crds/waits.ts";
import type { Workload } from "../crds/workload.ts";
import { isQueued } from "./builds/build-turns.ts";
import { isWaiting, needsHelper } from "./claim/claim-status.ts";
import type { OperatorConfig } from "./config.ts";
import { poolIndex, warmIndex } from "./pool/pool-member.ts";

/** An operator whose role is of a version before may not read quotas, and logs that each time. */
const QUOTAS_BACKOFF_MS = 60_000;

/** The caches that reconciles work with. */
export interface Informers {
  claims: Informer<Claim, "uid" | "key" | "instance" | "using" | "waitingFor" | "needsHelper">;
  workloads: Informer<Workload, "queuedBuild" | "configMap">;
  pools: Informer<Pool, "workload">;
  /**
   * All of the namespace but those of builds: a pod that loses its labels stays in sight. The indexes hold pods of
   * workloads only.
   */
  pods: Informer<Pod, "claimUid" | "workload" | "pool" | "warm">;
  /** The one pod that mounts the snapshots volume. */
  helperPods: Informer<Pod, never>;
  /** Managed policies only. */
  networkPolicies: Informer<NetworkPolicy, never>;
  /**
   * Readiness does not wait for them, so they may be missing where the operator may not read them. Use them only to
   * start work, never to decide.
   */
  resourceQuotas: Informer<ResourceQuota, never>;
  /**
   * The objects of the workloads' proxies; undefined without an image for these, where the operator may not read them.
   */
  egress: EgressInformers | undefined;
  /**
   * What images are built by; undefined without a registry, where the operator may not read it. No part of what
   * readiness waits for, so it may be empty: it starts work and is believed in nothing.
   */
  builds: BuildInformers | undefined;
}

/** Metadata only: it is enough to know that an object has changed. */
export interface EgressInformers {
  /** Managed ones. */
  configMaps: Informer<KubernetesObject, never>;
  /** All, since workloads name others. */
  secrets: Informer<KubernetesObject, never>;
}

export interface BuildInformers {
  /** Those that build images, in the namespace of builds. */
  jobs: Informer<Job, "workload">;
  /** The pods of these. */
  pods: Informer<Pod, never>;
  /** The policy of these. */
  policies: Informer<NetworkPolicy, never>;
  /** All of the workloads' namespace, since workloads name them; metadata only. */
  configMaps: Informer<KubernetesObject, never>;
}

/** The informers, and whether they show the cluster as it is. */
export interface StartedInformers {
  readonly informers: Informers;
  /** Resolves when every store holds what the cluster has, and follows it. */
  readonly synced: Promise<void>;
  /** Rejects when one of them cannot go on; resolves after `signal` is aborted. */
  readonly done: Promise<void>;
  /** Whether every watch is open. */
  isReady(): boolean;
  /** Resolves when every watch is, or the signal is aborted. */
  untilReady(signal: AbortSignal): Promise<void>;
}

/** Watches the cluster until the signal is aborted. */
export function startInformers(options: {
  client: ClusterClient;
  config: OperatorConfig;
  onFailure: ReportHandlerFailure;
  log: Log;
  signal: AbortSignal;
}): StartedInformers {
  const { client, config, onFailure, log, signal } = options;
  const { namespace } = config;
  const watching = new Set<string>();
  const waiters = new Set<() => void>();
  const follow = (name: string) => ({
    onState({ kind }: ListWatchState) {
      if (kind !== "watching") watching.delete(name);
      else if (watching.add(name).size === all.length) for (const resolve of waiters) resolve();
    },
  });
  const isReady = () => watching.size === all.length;

  const managed = `${label.managed}=true`;
  const helperSelector = Object.entries(SNAPSHOTS_LABELS)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
  const shared = { client, namespace, signal, log, onFailure };
  const followEgress = (
    name: keyof EgressInformers,
    { resource, labelSelector }: { resource: Resource<KubernetesObject>; labelSelector?: string },
  ) =>
    startInformer({
      ...shared,
      ...follow(`egress ${name}`),
      resource: metadataOf(resource),
      labelSelector,
      transform: withoutAnnotations,
      indexes: {},
    });
  const egress =
    config.egress.image === undefined
      ? undefined
      : {
          configMaps: followEgress("configMaps", { resource: configMaps, labelSelector: managed }),
          // Workloads name Secrets that are not managed.
          secrets: followEgress("secrets", { resource: secrets }),
        };
  // Not followed: without the namespace of builds or its rights nothing is built, and all else goes on.
  const building = { ...shared, labelSelector: `${label.build}=true`, namespace: config.builds?.namespace };
  const builds =
    config.builds === undefined
      ? undefined
      : {
          jobs: startInformer<Job, "workload">({
            ...{ ...building, resource: jobs },
            indexes: { workload: (job) => job.metadata.labels?.[label.workload] },
          }),
          pods: startInformer<Pod, never>({
            ...{ ...building, resource: pods },
            indexes: {},
          }),
          policies: startInformer<NetworkPolicy, never>({
            ...{ ...building, resource: networkPolicies },
            indexes: {},
          }),
          configMaps: startInformer<KubernetesObject, never>({
            ...{ ...shared, resource: metadataOf(configMaps) },
            transform: withoutAnnotations,
            indexes: {},
          }),
        };
  const informers: Informers = {
    egress,
    builds,
    claims: startInformer({
      ...shared,
      ...follow("claims"),
      resource: claims,
      indexes: {
        uid: (claim) => claim.metadata.uid,
        key: ({ spec }) => claimKey(spec),
        instance: ({ status }) => status?.instanceId,
        // A claim in Error has no pod, so a workload that it names can be deleted.
        using: (claim) => (claim.status?.phase === "Error" ? undefined : claim.spec.workloadRef),
        needsHelper: (claim) => (needsHelper(claim) ? "" : undefined),
        waitingFor: (claim) => (isWaiting(claim) ? claim.spec.workloadRef : undefined),
      },
    }),
    workloads: startInformer({
      ...shared,
      ...follow("workloads"),
      resource: workloads,
      indexes: {
        queuedBuild: (workload) => (isQueued(workload) ? "" : undefined),
        configMap: ({ spec }) => spec.image.context?.configMapRef?.name,
      },
    }),
    pools: startInformer({
      ...shared,
      ...follow("pools"),
      resource: pools,
      indexes: { workload: (pool) => pool.spec.workloadRef },
    }),
    pods: startInformer({
      ...shared,
      ...follow("pods"),
      resource: pods,
      labelSelector: `!${label.build}`,
      transform: shareEqualParts<Pod>(),
      pageSize: 250,
      indexes: {
        claimUid: (pod) => pod.metadata.annotations?.[annotation.claimUid],
        workload: (pod) => pod.metadata.labels?.[label.workload],
        pool: poolIndex,
        warm: warmIndex,
      },
    }),
    helperPods: startInformer({
      ...shared,
      ...follow("helperPods"),
      resource: pods,
      labelSelector: helperSelector,
      indexes: {},
    }),
    networkPolicies: startInformer({
      ...shared,
      ...follow("networkPolicies"),
      resource: networkPolicies,
      labelSelector: managed,
      indexes: {},
    }),
    resourceQuotas: startInformer<ResourceQuota, never>({
      ...shared,
      resource: resourceQuotas,
      indexes: {},
      timings: { maxBackoffMs: QUOTAS_BACKOFF_MS },
    }),
  };
  const { egress: _, builds: __, resourceQuotas: followed, ...always } = informers;
  const all = [...Object.values(always), ...Object.values(egress ?? {})];
  const synced = Promise.all(all.map((informer) => informer.synced)).then(() => undefined);
  // An informer that can never sync says so by its `done` too.
  synced.catch(() => log.debug({}, "stopped before the caches were synced"));

  async function untilReady(given: AbortSignal): Promise<void> {
    if (isReady() || given.aborted) return;
    const ready = createDeferred<void>();
    waiters.add(ready.resolve);
    const ignoreAbort = onAbort(given, ready.resolve);
    await ready.promise;
    ignoreAbort();
    waiters.delete(ready.resolve);
  }

  const ends = [...all, followed, ...Object.values(builds ?? {})].map(({ done }) => done);
  const done = Promise.all(ends).then(() => undefined);
  return { informers, synced, done, isReady, untilReady };
}

/** `kubectl apply` keeps a copy of a Secret's values in one. */
function withoutAnnotations({ metadata: { annotations: _, ...metadata } }: KubernetesObject): KubernetesObject {
  return { metadata };
}
