import type { Claim, ClaimStatus } from "../../../crds/claim.ts";

import { ApiError } from "../../../crds/client/api-error.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { createStore, type IndexFunction, keyOf } from "../../../crds/client/watch/store.ts";
import type { CoreEvent, KubernetesObject, PersistentVolumeClaim, Pod, PodStatus } from "../../../crds/kubernetes.ts";
import { annotation, label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import type { Pool } from "../../../crds/pool.ts";
import type { Resource } from "../../../crds/resource.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { Workload, WorkloadSpec } from "../../../crds/workload.ts";
import { type ClaimWaiters, createClaimWaiters } from "../../../edge/cluster/claim-waiters.ts";
import { slimPod } from "../../../edge/cluster/slim-pod.ts";
import type { CachedKind } from "../../../edge/cluster/watch-cluster.ts";
import {
  type ClusterCache,
  claimIndexes,
  phaseOf,
  poolOf,
  webhookPath,
  workloadOf,
} from "../../../edge/cluster/watch-cluster.ts";

export const NAMESPACE = "tenancy";

interface WatchedObjects {
  put(object: KubernetesObject): void;
  drop(object: KubernetesObject): void;
}

const helperRuns: PodStatus = {
  phase: "Running",
  containerStatuses: [
    { name: SNAPSHOTS_CONTAINER, ready: true, restartCount: 0, image: "busybox", state: { running: {} } },
  ],
};

function notFound(name: string): ApiError {
  return new ApiError(`"${name}" not found`, { status: 404, reason: "NotFound" });
}

/** One call that reached the fake, and what it carried. */
export interface Call {
  verb: "get" | "list" | "create" | "replace" | "patch" | "delete";
  name: string;
  body?: unknown;
  dryRun?: true;
}

/**
 * A cluster in memory, for what a real one does only under rare timing: it keeps objects with resource versions, uids
 * and finalizers, shows each write on the watch at once (or never, with `lag`), and fails a call when told to. A claim
 * that is made Active has the pod that its status names, at the address of its endpoint, unless a test made that pod
 * before.
 */
export class FakeCluster {
  readonly calls: Call[] = [];
  readonly waiters: ClaimWaiters = createClaimWaiters();
  readonly objects = new Map<string, KubernetesObject>();
  readonly cache: ClusterCache;
  readonly client: ClusterClient;
  /** The snapshots volume's, which the helper pod shares its name with. */
  volumeClaim: PersistentVolumeClaim | undefined;
  isFresh = true;
  /** The time of day of deletions, of which seconds are told. */
  now: () => number = () => Date.parse("2026-01-01T00:00:00Z");
  /** While true, writes do not show on the watch. */
  lag = false;
  #version = 100;
  #faults: { verb: Call["verb"]; error: Error | (() => void) }[] = [];

  constructor() {
    this.cache = {
      claims: this.#watched<Claim, "key" | "tenant" | "phase" | "host">(claimIndexes, (claim) =>
        this.waiters.changed(claim.spec),
      ),
      workloads: this.#watched<Workload, never>({}),
      pools: this.#watched<Pool, "workload">({ workload: workloadOf }),
      triggers: this.#watched<Trigger, "path" | "workload">({ path: webhookPath, workload: workloadOf }),
      pods: this.#watched<Pod, "phase" | "pool">(
        { phase: phaseOf, pool: poolOf },
        ({ metadata: { labels = {} } }) =>
          this.waiters.changed({ tenantId: labels[label.tenant] ?? "", workloadRef: labels[label.workload] ?? "" }),
        slimPod,
      ),
    };
    this.client = this.#client();
  }

  /** The next call of the verb throws the error, or runs the function first, to be overtaken by another writer. */
  onNext(verb: Call["verb"], error: Error | (() => void)): void {
    this.#faults.push({ verb, error });
  }

  verbs(): string[] {
    return this.calls.map(({ verb }) => verb);
  }

  addWorkload(name: string, more: Partial<WorkloadSpec> = {}): Workload {
    const spec = { image: { ref: "example.com/app:1" }, ...more };
    return this.#save({ kind: "TenancyWorkload", metadata: { name, namespace: NAMESPACE }, spec } as Workload);
  }

  addPod(
    name: string,
    phase: string,
    more: {
      labels?: Record<string, string>;
      annotations?: Record<string, string>;
      podIP?: string;
      port?: number;
      hidden?: true;
    } = {},
  ): Pod {
    const { labels = {}, annotations = {}, podIP, port = 8080, hidden } = more;
    const container = { name: WORKLOAD_CONTAINER, image: "example.com/app:1" };
    const pod = {
      kind: "Pod",
      metadata: { name, namespace: NAMESPACE, labels: { [label.managed]: "true", ...labels }, annotations },
      spec: { containers: [{ ...container, ports: [{ containerPort: port }] }] },
      status: {
        phase,
        ...(podIP !== undefined && { podIP }),
        ...(phase === "Running" && { containerStatuses: [{ ...container, ready: true, state: { running: {} } }] }),
      },
    } as unknown as Pod;
    const lag = this.lag;
    this.lag = lag || hidden === true;
    const saved = this.#save(pod);
    this.lag = lag;
    return saved;
  }

  /** The pod that a claim's status names. */
  podOf(
    { metadata, spec, status }: Claim,
    more: { podIP?: string | undefined; uid?: string; tenantId?: string } = {},
  ): Pod {
    const { host, port } = status?.endpoint ?? {};
    const podIP = "podIP" in more ? more.podIP : host;
    return this.addPod(status?.instanceId ?? "", "Running", {
      labels: { [label.tenant]: more.tenantId ?? spec.tenantId, [label.workload]: spec.workloadRef },
      annotations: {
        [annotation.claimUid]: more.uid ?? metadata.uid ?? "",
        [annotation.claim]: metadata.name,
        ...(status?.claimedAt !== undefined && { [annotation.claimedAt]: status.claimedAt }),
      },
      ...(podIP !== undefined && { podIP }),
      ...(port !== undefined && { port }),
    });
  }

  /** A bound snapshots volume, and its helper pod unless its status is undefined. */
  addSnapshots(status: PodStatus | undefined = helperRuns): void {
    const metadata = { name: SNAPSHOTS_NAME, namespace: NAMESPACE, labels: SNAPSHOTS_LABELS };
    this.volumeClaim = { kind: "PersistentVolumeClaim", metadata, spec: {}, status: { phase: "Bound" } };
    const pod = { kind: "Pod", metadata, spec: { containers: [] }, status } as Pod;
    if (status === undefined) this.objects.delete(keyOf(pod));
    else this.objects.set(keyOf(pod), pod);
  }

  addClaim(fields: {
    tenantId: string;
    workloadRef: string;
    name?: string;
    uid?: string;
    status?: ClaimStatus;
    createdAt?: string;
    attempt?: string;
    deleting?: boolean;
    /** Name of the pod that was destroyed. */
    destroyed?: string;
  }): Claim {
    const { tenantId, workloadRef, name = `claim-${tenantId}-${workloadRef}`, status, attempt, destroyed } = fields;
    const annotations = {
      ...(attempt !== undefined && { [annotation.attempt]: attempt }),
      ...(destroyed !== undefined && { [annotation.destroyed]: destroyed }),
    };
    return this.#saveClaim({
      kind: "TenancyClaim",
      metadata: {
        name,
        namespace: NAMESPACE,
        finalizers: ["tenancy.dev/release"],
        ...(fields.uid !== undefined && { uid: fields.uid }),
        ...(fields.createdAt !== undefined && { creationTimestamp: fields.createdAt }),
        ...(Object.keys(annotations).length > 0 && { annotations }),
        ...(fields.deleting === true && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
      },
      spec: { tenantId, workloadRef, resume: false },
      ...(status !== undefined && { status }),
    } as Claim);
  }

  /** A running pod of an Active claim. */
  addInstance(name: string): Pod {
    const status: ClaimStatus = { phase: "Active", instanceId: name, endpoint: { host: "10.0.0.1", port: 8080 } };
    const { metadata } = this.addClaim({ tenantId: name, workloadRef: "app", status });
    const annotations = { [annotation.claimUid]: metadata.uid ?? "", [annotation.claim]: metadata.name };
    const labels = { [label.workload]: "app", [label.tenant]: name };
    return this.addPod(name, "Running", { labels, annotations, podIP: "10.0.0.1" });
  }

  claim(name: string): Claim {
    return this.#held(name) as Claim;
  }

  /** The operator's part: answers the claim's current attempt. */
  setStatus(name: string, status: ClaimStatus): void {
    const claim = this.claim(name);
    const attempt = claim.metadata.annotations?.[annotation.attempt];
    this.#saveClaim({ ...claim, status: { ...status, ...(attempt !== undefined && { attempt }) } });
  }

  /** An Event about an object of that uid. */
  addEvent(involvedObject: { kind: string; uid: string | undefined }, event: { reason: string; at: string }): void {
    const metadata = { name: `event-${this.#version}`, namespace: NAMESPACE };
    this.#save({ kind: "Event", metadata, involvedObject, reason: event.reason, lastTimestamp: event.at } as never);
  }

  /** The end of a pod, as the watch shows it too. */
  removePod(name: string): void {
    const pod = this.#held(name);
    this.objects.delete(keyOf(pod));
    this.#kind(pod)?.drop(pod);
  }

  /** The operator's part: lets a released claim go. */
  remove(name: string): void {
    const object = this.#held(name);
    this.objects.delete(keyOf(object));
    const store = this.cache.claims as unknown as { drop(object: KubernetesObject): void };
    store.drop(object);
  }

  #saveClaim(claim: Claim): Claim {
    const { instanceId } = claim.status ?? {};
    const uid = claim.metadata.uid ?? `uid-claim-${this.#version}`;
    const whole = { ...claim, metadata: { ...claim.metadata, uid } };
    // Before the watch shows the claim, as a pod is bound before its claim is Active.
    if (claim.status?.phase === "Active" && instanceId !== undefined && this.#find(instanceId) === undefined)
      this.podOf(whole);
    return this.#save(whole);
  }

  #held(name: string): KubernetesObject {
    const object = this.#find(name);
    if (object === undefined) throw notFound(name);
    return object;
  }

  #find(name: string): KubernetesObject | undefined {
    return this.objects.get(`${NAMESPACE}/${name}`);
  }

  /** @param dryRun whether it is only shown what it would be */
  #save<T extends KubernetesObject>(object: T, dryRun = false): T {
    this.#version += 1;
    const { spec, metadata: before } = (this.objects.get(keyOf(object)) ?? object) as T & { spec?: unknown };
    const isSame = JSON.stringify(spec) === JSON.stringify((object as { spec?: unknown }).spec);
    const metadata = {
      uid: `uid-${this.#version}`,
      creationTimestamp: "2026-01-01T00:00:00Z",
      ...object.metadata,
      generation: (before.generation ?? 0) + (isSame && before.generation !== undefined ? 0 : 1),
      resourceVersion: String(this.#version),
    };
    const saved = { ...object, metadata };
    if (dryRun) return saved;
    this.objects.set(keyOf(saved), saved);
    if (!this.lag) this.#kind(saved)?.put(saved);
    return saved;
  }

  /** Undefined for a kind that nobody watches. */
  #kind(object: KubernetesObject): WatchedObjects | undefined {
    const { claims, workloads, pools, triggers, pods } = this.cache;
    const ours = { TenancyClaim: claims, TenancyWorkload: workloads, TenancyPool: pools, TenancyTrigger: triggers };
    const kinds = { ...ours, Pod: pods };
    return kinds[object.kind as keyof typeof kinds] as unknown as WatchedObjects | undefined;
  }

  #watched<T extends KubernetesObject, Index extends string>(
    indexes: Readonly<Record<Index, IndexFunction<T>>>,
    onChange: (object: T) => void = () => undefined,
    transform: (object: T) => T = (object) => object,
  ): CachedKind<T, Index> {
    const store = createStore<T, Index>({ indexes });
    return Object.assign(
      {
        store,
        put: (object: T) => {
          if (store.put(transform(object))) onChange(object);
        },
        isFresh: () => this.isFresh,
        versions: () => ({ seen: String(this.#version), changed: String(this.#version) }),
      },
      {
        drop: (object: T) => {
          store.remove(object);
          onChange(object);
        },
      },
    );
  }

  #client(): ClusterClient {
    const record = (call: Call): void => {
      this.calls.push(call);
      const at = this.#faults.findIndex(({ verb }) => verb === call.verb);
      const fault = at < 0 ? undefined : this.#faults.splice(at, 1)[0]?.error;
      if (fault instanceof Error) throw fault;
      fault?.();
    };
    const conflict = () => new ApiError("the object has been modified", { status: 409, reason: "Conflict" });
    const client = {
      get: async ({ kind }: Resource<KubernetesObject>, { name }: { name: string }) => {
        record({ verb: "get", name });
        if (kind !== "PersistentVolumeClaim") return this.#held(name);
        if (this.volumeClaim === undefined) throw notFound(name);
        return this.volumeClaim;
      },
      list: async (resource: Resource<KubernetesObject>, { fieldSelector }: { fieldSelector?: string } = {}) => {
        record({ verb: "list", name: resource.plural });
        const [, uid] = /^involvedObject\.uid=(.*)$/.exec(fieldSelector ?? "") ?? [];
        const isSelected = (object: KubernetesObject) =>
          uid === undefined || (object as CoreEvent).involvedObject.uid === uid;
        const metadata = { resourceVersion: String(this.#version) };
        return {
          metadata,
          items: [...this.objects.values()].filter((one) => one.kind === resource.kind && isSelected(one)),
        };
      },
      create: async (
        resource: Resource<KubernetesObject>,
        object: KubernetesObject,
        { dryRun = false }: { dryRun?: boolean } = {},
      ) => {
        const { name } = object.metadata;
        record({ verb: "create", name, body: object, ...(dryRun && { dryRun: true as const }) });
        if (this.#find(name)) throw new ApiError(`"${name}" already exists`, { status: 409, reason: "AlreadyExists" });
        return this.#save({ kind: resource.kind, ...object }, dryRun);
      },
      replace: async (_: unknown, object: KubernetesObject, { dryRun = false }: { dryRun?: boolean } = {}) => {
        const { name, resourceVersion } = object.metadata;
        record({ verb: "replace", name, body: object, ...(dryRun && { dryRun: true as const }) });
        if (this.#held(name).metadata.resourceVersion !== resourceVersion) throw conflict();
        return this.#save(object, dryRun);
      },
      patch: async (_: unknown, { name }: { name: string }, { body }: { body: unknown }) => {
        record({ verb: "patch", name, body });
        const held = this.#held(name) as Claim;
        const { metadata, spec } = body as Claim;
        if (metadata.resourceVersion !== undefined && metadata.resourceVersion !== held.metadata.resourceVersion)
          throw conflict();
        if (metadata.uid !== undefined && metadata.uid !== held.metadata.uid) throw conflict();
        const annotations = { ...held.metadata.annotations, ...metadata.annotations };
        return this.#save({
          ...held,
          metadata: { ...held.metadata, annotations },
          spec: { ...held.spec, ...spec },
        } as Claim);
      },
      delete: async (
        _: unknown,
        { name }: { name: string },
        options: { uid?: string; resourceVersion?: string; gracePeriodSeconds?: number } = {},
      ) => {
        const { uid, resourceVersion } = options;
        record({ verb: "delete", name, body: options });
        const held = this.#held(name);
        if (uid !== undefined && held.metadata.uid !== uid) throw conflict();
        if (resourceVersion !== undefined && held.metadata.resourceVersion !== resourceVersion) throw conflict();
        if ((held.metadata.finalizers ?? []).length > 0) {
          const deletionTimestamp = `${new Date(this.now()).toISOString().slice(0, 19)}Z`;
          return this.#save({ ...held, metadata: { ...held.metadata, deletionTimestamp } });
        }
        this.objects.delete(keyOf(held));
        if (!this.lag) this.#kind(held)?.drop(held);
        return undefined;
      },
    };
    return client as unknown as ClusterClient;
  }
}
