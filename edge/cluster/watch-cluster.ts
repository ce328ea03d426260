import type { Claim } from "../../crds/claim.ts";
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

/** What the edge knows of its namespace without a call: one watch a kind, shared by all requests. */
export interface ClusterCache {
  /**
   * Indexes: `key` by {@link claimKey}, `tenant` by the tenant id, `phase` by the phase, `host` by its label at the
   * front door, where that cannot be read.
   */
  readonly claims: CachedKind<Claim, "key" | "tenant" | "phase" | "host">;
  readonly workloads: CachedKind<Workload>;
  /**
   * Managed pods, and without the role api those of tenants alone. Indexes: `phase`, and `pool` by {@link poolIndex}
   * those that wait in a pool.
   */
  readonly pods: CachedKind<Pod, "phase" | "pool">;
  /**
   * Undefined without the roles api and gateway, whose accounts alone may read them: they can hold credentials.
   * Indexes: `path` by the webhook's path, `workload` by the workload's name.
   */
  readonly triggers?: CachedTriggers | undefined;
  /** Undefined without the role api, whose account alone may watch them. Index: `workload`. */
  readonly pools?: CachedKind<Pool, "workload"> | undefined;
}

export type CachedTriggers = CachedKind<Trigger, "path" | "workload">;

/**
 * Watches everything that the edge answers from memory, and resolves the calls that wait for a claim or its pod.
 *
 * @returns the cache; `synced` resolves after the initial lists, `done` rejects where a watch cannot be resumed
 */
export function watchCluster(options: {
  client: ClusterClient;
  namespace: string;
  waiters: ClaimWaiters;
  /** Of this process. Each watches only what its account may read. */
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
      // Nobody asks a gateway for the pods that wait in pools, which change more often than those of tenants.
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
      // The caller sees the failure in `synced` or in `done`.
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
 * How the caches stand: whether all are fresh, and up to where changes have been told, by the API's words for kinds.
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

/** The path that a trigger serves; undefined for one that is no webhook. */
export function webhookPath({ spec }: Trigger): string | undefined {
  return spec.type === "webhook" ? spec.config.path : undefined;
}

/** The phase of an object; one that has no status yet is `Pending`, as pods and claims are born. */
export function phaseOf({ status }: { status?: { phase?: string } | undefined }): string {
  return status?.phase ?? "Pending";
}

/** The index `workload` of pools and triggers. */
export function workloadOf({ spec }: { spec: { workloadRef: string } }): string {
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
  /** How far the watch has come: a list is as new as `seen`, and of what is after `changed` nothing was told yet. */
  versions(): Versions;
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
    versions: informer.versions,
  };
}
