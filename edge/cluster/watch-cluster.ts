import type { Claim } from "../../crds/claim.ts";
import { claimKey } from "../../crds/claims/claim-key.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../../crds/client/watch/handler-failures.ts";
import { type Change, startInformer } from "../../crds/client/watch/informer.ts";
import type { IndexFunction, ReadonlyStore } from "../../crds/client/watch/store.ts";
import { claims, pools, workloads } from "../../crds/kinds.ts";
import type { KubernetesObject, Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import type { Pool } from "../../crds/pool.ts";
import type { Resource } from "../../crds/resource.ts";
import type { Workload } from "../../crds/workload.ts";
import type { ClaimWaiters } from "./claim-waiters.ts";
import { createFreshness } from "./freshness.ts";
import { poolIndex, poolPlace, slimPod } from "./slim-pod.ts";

/** What the edge knows of its namespace without a call: one watch a kind, shared by all requests. */
export interface ClusterCache {
  /** Indexes: `key` by {@link claimKey}, `tenant` by the tenant id, `phase` by the phase. */
  readonly claims: CachedKind<Claim, "key" | "tenant" | "phase">;
  readonly workloads: CachedKind<Workload>;
  /** Managed pods only; indexes: `phase`, and `pool` by {@link poolIndex} those that wait in a pool. */
  readonly pods: CachedKind<Pod, "phase" | "pool">;
  /** Undefined without the role api, whose account alone may watch them. Index: `workload`. */
  readonly pools?: CachedKind<Pool, "workload"> | undefined;
}

/**
 * Watches everything that the edge answers from memory, and resolves the calls that wait for a claim or its pod.
 *
 * @returns the cache; `synced` resolves after the initial lists, `done` rejects where a watch cannot be resumed
 */
export function watchCluster(options: {
  client: ClusterClient;
  namespace: string;
  waiters: ClaimWaiters;
  /** Called for each change after the initial list. */
  onClaim: (change: Change<Claim>) => void;
  /** Called for each change after the initial list. */
  onPod: (change: Change<Pod>) => void;
  /** Whether this process has the role api. */
  isApi: boolean;
  /** Called for each workload of the initial list and each change after it. */
  onWorkload: (name: string) => void;
  onFailure: ReportHandlerFailure;
  signal: AbortSignal;
  log: Log;
}): ClusterCache & { readonly synced: Promise<unknown>; readonly done: Promise<unknown> } {
  const { waiters, onClaim, onPod, onWorkload, isApi, ...shared } = options;
  // Objects of the initial list are not changes.
  const synced = { claims: false, pods: false };
  const cache = {
    claims: watchKind({
      ...shared,
      resource: claims,
      indexes: { key: (claim) => claimKey(claim.spec), tenant: (claim) => claim.spec.tenantId, phase: phaseOf },
      onChange(change) {
        waiters.changed(change.object.spec);
        if (synced.claims) onClaim(change);
      },
    }),
    workloads: watchKind({
      ...shared,
      resource: workloads,
      indexes: {},
      onChange: ({ object }) => onWorkload(object.metadata.name),
    }),
    pods: watchKind({
      ...shared,
      resource: pods,
      labelSelector: `${label.managed}=true`,
      indexes: { phase: phaseOf, pool: poolOf },
      transform: slimPod,
      onChange(change) {
        const { labels = {} } = change.object.metadata;
        const [tenantId, workloadRef] = [labels[label.tenant], labels[label.workload]];
        if (tenantId !== undefined && workloadRef !== undefined) waiters.changed({ tenantId, workloadRef });
        if (synced.pods) onPod(change);
      },
    }),
  };
  for (const kind of ["claims", "pods"] as const) {
    cache[kind].synced.then(
      () => {
        synced[kind] = true;
      },
      // The caller sees the failure in the cache's own `synced`.
      () => undefined,
    );
  }
  const shown = isApi ? { pools: watchKind({ ...shared, resource: pools, indexes: { workload: workloadOf } }) } : {};
  // Nothing waits for these.
  for (const { synced } of Object.values(shown)) synced.catch(() => undefined);
  return {
    ...cache,
    ...shown,
    synced: Promise.all(Object.values(cache).map(({ synced }) => synced)),
    done: Promise.all([...Object.values(cache), ...Object.values(shown)].map(({ done }) => done)),
  };
}

/** The phase of an object; one that has no status yet is `Pending`, as pods and claims are born. */
export function phaseOf({ status }: { status?: { phase?: string } | undefined }): string {
  return status?.phase ?? "Pending";
}

/** The index `workload` of pools. */
export function workloadOf({ spec }: Pool): string {
  return spec.workloadRef;
}

/** The index `pool` of pods. */
export function poolOf(pod: Pod): string | undefined {
  const place = poolPlace(pod);
  return place && poolIndex(place);
}

/** The objects of one kind, as the shared watch last saw them. */
export interface CachedKind<T extends KubernetesObject, Index extends string = never> {
  readonly store: ReadonlyStore<T, Index>;
  /** Takes a write's answer over at once, so that what is read next knows of it. */
  put(object: T): void;
  /** False until the first list is there, and while the watch cannot reach the cluster. */
  isFresh(): boolean;
}

/** Follows one kind of the namespace for as long as the signal lets it. */
export function watchKind<T extends KubernetesObject, Index extends string = never>(options: {
  client: ClusterClient;
  resource: Resource<T>;
  namespace: string;
  labelSelector?: string;
  indexes: Readonly<Record<Index, IndexFunction<T>>>;
  onChange?: (change: Change<T>) => void;
  /** Makes of an object what is stored. */
  transform?: (object: T) => T;
  /** Called with what the functions above throw over one object. */
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
  };
}
