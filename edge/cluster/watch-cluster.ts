import type { Claim } from "../../crds/claim.ts";
import { withoutInputs } from "../../crds/claims/claim-inputs.ts";
import { claimKey } from "../../crds/claims/claim-key.ts";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../../crds/client/watch/handler-failures.ts";
import { type Change, startInformer } from "../../crds/client/watch/informer.ts";
import type { Versions } from "../../crds/client/watch/list-watch.ts";
import type { IndexFunction, ReadonlyStore } from "../../crds/client/watch/store.ts";
import { derivedDigits } from "../../crds/host-name.ts";
import { claims, pools, triggers, workloads } from "../../crds/kinds.ts";
import type { KubernetesObject, Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import type { Pool } from "../../crds/pool.ts";
import type { Resource } from "../../crds/resource.ts";
import type { Trigger } from "../../crds/trigger.ts";
import type { Workload } from "../../crds/workload.ts";
import type { EdgeRole } from "../config.ts";
import type { ClaimWaiters } from "./claim-waiters.ts";
import { createFreshness } from "./freshness.ts";
import { podsWithoutSpec, poolIndex, poolPlace, slimPod } from "./slim-pod.ts";

/** The edge's cache of its namespace: one watch per kind, shared by all requests. */
export interface ClusterCache {
  /**
   * Indexes: `key` by {@link claimKey}, `tenant` by tenant id, `phase` by phase, `host` by the front door label of
   * claims whose label cannot be decoded.
   */
  readonly claims: CachedKind<Claim, "key" | "tenant" | "phase" | "host">;
  readonly workloads: CachedKind<Workload>;
  /**
   * Managed pods; without the role api only those of tenants. Indexes: `phase`, and `pool` by {@link poolIndex} for
   * waiting pods of a pool.
   */
  readonly pods: CachedKind<Pod, "phase" | "pool">;
  /**
   * Undefined without the roles api and gateway: only their accounts may read triggers, which can hold credentials.
   * Indexes: `path` by the webhook's path, `workload` by the workload's name.
   */
  readonly triggers?: CachedTriggers | undefined;
  /** Undefined without the role api: only its account may watch pools. Index: `workload`. */
  readonly pools?: CachedKind<Pool, "workload"> | undefined;
}

export type CachedTriggers = CachedKind<Trigger, "path" | "workload">;

/**
 * Watches everything that the edge answers from memory, and resolves the calls that wait for a claim or its pod.
 *
 * @returns the cache; `synced` resolves after the initial lists, `done` rejects if a watch cannot be resumed
 */
export function watchCluster(options: {
  client: ClusterClient;
  namespace: string;
  waiters: ClaimWaiters;
  /** Roles of this process. Each role watches only what its account may read. */
  roles: ReadonlySet<EdgeRole>;
  /** Called for each change of a kind after the initial list. */
  onChange: {
    readonly claims: (change: Change<Claim>) => void;
    readonly workloads: (change: Change<Workload>) => void;
    readonly pods: (change: Change<Pod>) => void;
    readonly triggers: (change: Change<Trigger>) => void;
    readonly pools: (change: Change<Pool>) => void;
  };
  /** Called for each object of the initial list too. */
  gateway: { readonly workload: (name: string) => void; readonly trigger: (change: Change<Trigger>) => void };
  onFailure: ReportHandlerFailure;
  signal: AbortSignal;
  log: Log;
}): ClusterCache & {
  readonly synced: Promise<unknown>;
  readonly triggers?: (CachedTriggers & { readonly synced: Promise<void> }) | undefined;
  readonly done: Promise<unknown>;
} {
  const { waiters, roles, onChange, gateway, ...shared } = options;
  const isApi = roles.has("api");
  const listed = { claims: false, workloads: false, pods: false, triggers: false, pools: false };
  const awaited = {
    claims: watchKind({
      ...shared,
      resource: claims,
      indexes: claimIndexes,
      transform: withoutInputs,
      onChange(change) {
        waiters.changed(change.object.spec, change.object);
        if (listed.claims) onChange.claims(change);
      },
    }),
    workloads: watchKind({
      ...shared,
      resource: workloads,
      indexes: {},
      onChange(change) {
        gateway.workload(change.object.metadata.name);
        if (listed.workloads) onChange.workloads(change);
      },
    }),
    pods: watchKind({
      ...shared,
      resource: podsWithoutSpec,
      // A gateway never returns warm pods of pools, which change more often than those of tenants.
      labelSelector: isApi ? `${label.managed}=true` : `${label.managed}=true,${label.tenant}`,
      indexes: { phase: phaseOf, pool: poolOf },
      transform: slimPod,
      onChange(change) {
        const { labels = {} } = change.object.metadata;
        const [tenantId, workloadRef] = [labels[label.tenant], labels[label.workload]];
        if (tenantId !== undefined && workloadRef !== undefined) waiters.changed({ tenantId, workloadRef });
        if (listed.pods) onChange.pods(change);
      },
    }),
  };
  const others = {
    ...((isApi || roles.has("gateway")) && {
      triggers: watchKind({
        ...shared,
        resource: triggers,
        indexes: { path: webhookPath, workload: workloadOf },
        onChange(change) {
          gateway.trigger(change);
          if (listed.triggers) onChange.triggers(change);
        },
      }),
    }),
    ...(isApi && {
      pools: watchKind({
        ...shared,
        resource: pools,
        indexes: { workload: workloadOf },
        onChange(change) {
          if (listed.pools) onChange.pools(change);
        },
      }),
    }),
  };
  for (const [kind, { synced }] of Object.entries({ ...awaited, ...others })) {
    synced.then(
      () => {
        listed[kind as keyof typeof listed] = true;
      },
      // The caller receives the failure from `synced` or `done`.
      () => undefined,
    );
  }
  return {
    ...awaited,
    ...others,
    synced: Promise.all(Object.values(awaited).map(({ synced }) => synced)),
    done: Promise.all([...Object.values(awaited), ...Object.values(others)].map(({ done }) => done)),
  };
}

/**
 * Freshness of the caches: whether all are fresh, and the version up to which changes were delivered, by the API's
 * names of kinds.
 */
export function standingOf({ claims, pods, workloads, pools, triggers }: ClusterCache): {
  fresh: boolean;
  versions: Record<string, string>;
} {
  const kinds = { claims, instances: pods, workloads, ...(triggers && { triggers }), ...(pools && { pools }) };
  const versions: Record<string, string> = {};
  for (const [name, kind] of Object.entries(kinds)) {
    const { changed } = kind.versions();
    if (changed !== undefined) versions[name] = changed;
  }
  return { fresh: Object.values(kinds).every((kind) => kind.isFresh()), versions };
}

/** The indexes of claims. */
export const claimIndexes = {
  key: (claim: Claim) => claimKey(claim.spec),
  tenant: (claim: Claim) => claim.spec.tenantId,
  phase: phaseOf,
  host: ({ spec }: Claim) => derivedDigits({ workload: spec.workloadRef, tenantId: spec.tenantId }),
};

/** The path that a trigger serves; undefined if it is not a webhook. */
export function webhookPath({ spec }: Trigger): string | undefined {
  return spec.type === "webhook" ? spec.config.path : undefined;
}

/** The phase of an object; an object without a status is `Pending`, as new pods and claims are. */
export function phaseOf({ status }: { status?: { phase?: string } | undefined }): string {
  return status?.phase ?? "Pending";
}

/** The index `workload` of pools and triggers. */
export function workloadOf({ spec }: { spec: { workloadRef: string } }): string {
  return spec.workloadRef;
}

/**
 * The warm pod that the next claim of a workload will probably get: the operator gives the one that has been ready
 * longest. Undefined if none is known, as without the role api.
 */
export function nextWarmPod(
  workload: string,
  { pools, pods }: ClusterCache,
): { name: string; uid: string } | undefined {
  for (const { metadata } of pools?.store.by("workload", workload) ?? []) {
    for (const pod of pods.store.by("pool", poolIndex({ pool: metadata.name, status: "ready" }))) {
      const { name, uid = "" } = pod.metadata;
      return { name, uid };
    }
  }
  return undefined;
}

/** The index `pool` of pods. */
export function poolOf(pod: Pod): string | undefined {
  const place = poolPlace(pod);
  return place && poolIndex(place);
}

/** The objects of one kind as last seen by the shared watch. */
export interface CachedKind<T extends KubernetesObject, Index extends string = never> {
  readonly store: ReadonlyStore<T, Index>;
  /** Stores the response of a write, so that the next read sees it. */
  put(object: T): void;
  /** False until the first list has arrived, and while the watch cannot reach the cluster. */
  isFresh(): boolean;
  /** Progress of the watch: the cache is as new as `seen`, and changes after `changed` have not been delivered yet. */
  versions(): Versions;
}

/** Watches one kind of the namespace until the signal aborts. */
export function watchKind<T extends KubernetesObject, Index extends string = never>(options: {
  client: ClusterClient;
  resource: Resource<T>;
  namespace: string;
  labelSelector?: string;
  indexes: Readonly<Record<Index, IndexFunction<T>>>;
  onChange?: (change: Change<T>) => void;
  /** Converts an object before it is stored. */
  transform?: (object: T) => T;
  /** Called with an error that a function above threw for one object. */
  onFailure?: ReportHandlerFailure;
  signal: AbortSignal;
  log: Log;
  clock?: Clock;
}): CachedKind<T, Index> & { readonly synced: Promise<void>; readonly done: Promise<void> } {
  const clock = options.clock ?? systemClock;
  const freshness = createFreshness(clock);
  const informer = startInformer<T, Index>({
    ...options,
    clock,
    onState: freshness.onState,
  });
  return {
    store: informer.store,
    synced: informer.synced,
    done: informer.done,
    put: informer.put,
    isFresh: freshness.isFresh,
    versions: informer.versions,
  };
}
