import type { Claim, ClaimSpec, ClaimStatus } from "../../../crds/claim.ts";
import { events, persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../../crds/client/cluster.ts";
import type { Informer } from "../../../crds/client/watch/informer.ts";
import { claims, pools, triggers, workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject, Pod, PodStatus } from "../../../crds/kubernetes.ts";
import { annotation, label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { buildJobName } from "../../../crds/names.ts";
import type { Workload, WorkloadSpec } from "../../../crds/workload.ts";
import { type ClaimWaiters, createClaimWaiters } from "../../../edge/cluster/claim-waiters.ts";
import { createEdgeCluster } from "../../../edge/cluster/edge-cluster.ts";
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
import { MemoryApi } from "../memory-api.ts";
import { memoryInformer } from "../memory-informer.ts";
import { runningHelper } from "../snapshots/helper-objects.ts";

export const NAMESPACE = "tenancy";
export const BUILD_NAMESPACE = "tenancy-builds";
export const KEYS_NAMESPACE = "tenancy-keys";

/**
 * The API in memory with the edge's caches over it. A claim that is made Active has the pod that its status names, at
 * the address of its endpoint, unless a test made that pod before.
 */
/** As the edge's watch reads a pod. */
function slimWithoutSpec({ metadata, status }: Pod): Pod {
  return slimPod({ metadata, ...(status && { status }) });
}

export class FakeCluster extends MemoryApi {
  readonly waiters: ClaimWaiters = createClaimWaiters();
  readonly cache: ClusterCache;
  override readonly cluster: Cluster;
  isFresh = true;

  constructor() {
    super(NAMESPACE);
    const cached = <T extends KubernetesObject, Index extends string>(
      informer: Informer<T, Index>,
    ): CachedKind<T, Index> => ({ ...informer, isFresh: () => this.isFresh });
    const claimsSeen = memoryInformer(this, { resource: claims, indexes: claimIndexes });
    claimsSeen.subscribe(({ object }) => this.waiters.changed(object.spec, object));
    const indexes = { phase: phaseOf, pool: poolOf };
    const podsSeen = memoryInformer(this, { resource: pods, indexes, transform: slimWithoutSpec });
    podsSeen.subscribe(
      ({
        object: {
          metadata: { labels = {} },
        },
      }) => this.waiters.changed({ tenantId: labels[label.tenant] ?? "", workloadRef: labels[label.workload] ?? "" }),
    );
    const byPath = { path: webhookPath, workload: workloadOf };
    this.cache = {
      ...{ claims: cached(claimsSeen), pods: cached(podsSeen) },
      workloads: cached(memoryInformer(this, { resource: workloads, indexes: {} })),
      pools: cached(memoryInformer(this, { resource: pools, indexes: { workload: workloadOf } })),
      triggers: cached(memoryInformer(this, { resource: triggers, indexes: byPath })),
    };
    this.cluster = createEdgeCluster({ client: this.client, namespace: NAMESPACE, cache: this.cache });
  }

  addWorkload(name: string, more: Partial<WorkloadSpec> = {}): Workload {
    const spec = { image: { ref: "example.com/app:1" }, ...more };
    return this.add(workloads, { metadata: { name, namespace: NAMESPACE }, spec });
  }

  addPod(
    name: string,
    phase: NonNullable<PodStatus["phase"]>,
    more: {
      labels?: Record<string, string>;
      annotations?: Record<string, string>;
      podIP?: string;
      port?: number;
      /** Whether its program answers. @default whether it runs */
      isReady?: boolean;
      hidden?: true;
    } = {},
  ): Pod {
    const { labels = {}, annotations = {}, podIP, port = 8080, isReady = phase === "Running", hidden } = more;
    const container = { name: WORKLOAD_CONTAINER, image: "example.com/app:1" };
    const pod: Pod = {
      metadata: { name, namespace: NAMESPACE, labels: { [label.managed]: "true", ...labels }, annotations },
      spec: { containers: [{ ...container, ports: [{ containerPort: port }] }] },
      status: {
        phase,
        ...(podIP !== undefined && { podIP }),
        ...(phase === "Running" && {
          conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
          containerStatuses: [{ ...container, ready: isReady, restartCount: 0, state: { running: {} } }],
        }),
      },
    };
    return this.add(pods, pod, { hidden: hidden === true });
  }

  /** The pod of a build, whose context was fetched where an exit code is given. */
  addBuild(
    name: string,
    options: { workload?: string; createdAt?: string; exitCode?: number; waiting?: boolean; key?: string } = {},
  ): void {
    const { workload = "app", createdAt = "2026-01-01T00:00:00Z", exitCode, waiting, key } = options;
    const job = key === undefined ? {} : { "batch.kubernetes.io/job-name": buildJobName(workload, key) };
    const labels = { [label.build]: "true", [label.workload]: workload, ...job };
    const begun = exitCode === undefined ? { running: {} } : { terminated: { exitCode } };
    const state = waiting ? { waiting: {} } : begun;
    const context = { name: "context", image: "b", ready: false, restartCount: 0, state };
    this.add(pods, {
      metadata: { name, namespace: BUILD_NAMESPACE, labels, creationTimestamp: createdAt },
      spec: { containers: [] },
      status: {
        ...{ phase: "Pending", initContainerStatuses: [context] },
        ...(exitCode === 0 && {
          containerStatuses: [
            { name: "build", image: "b", ready: false, restartCount: 0, state: { terminated: { exitCode: 0 } } },
          ],
        }),
      },
    });
  }

  /** The pod that a claim's status names. */
  podOf(
    { metadata, spec, status }: Claim,
    more: { podIP?: string | undefined; uid?: string; tenantId?: string; isReady?: boolean } = {},
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
      ...(more.isReady !== undefined && { isReady: more.isReady }),
    });
  }

  /** A bound snapshots volume, and its helper pod. */
  addSnapshots(status?: PodStatus): void {
    const helper = runningHelper();
    const { name, labels = {} } = helper.metadata;
    this.add(persistentVolumeClaims, { metadata: { name, labels }, spec: {}, status: { phase: "Bound" } });
    this.add(pods, status === undefined ? helper : { ...helper, status }, { hidden: true });
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
    annotations?: Record<string, string>;
    /** What else its spec says. */
    spec?: Pick<ClaimSpec, "expiresAt" | "labels" | "inputs">;
  }): Claim {
    const { tenantId, workloadRef, name = `claim-${tenantId}-${workloadRef}`, status, attempt, destroyed } = fields;
    const annotations = {
      ...fields.annotations,
      ...(attempt !== undefined && { [annotation.attempt]: attempt }),
      ...(destroyed !== undefined && { [annotation.destroyed]: destroyed }),
    };
    return this.#addClaim({
      metadata: {
        name,
        namespace: NAMESPACE,
        finalizers: ["tenancy.dev/release"],
        ...(fields.uid !== undefined && { uid: fields.uid }),
        ...(fields.createdAt !== undefined && { creationTimestamp: fields.createdAt }),
        ...(Object.keys(annotations).length > 0 && { annotations }),
        ...(fields.deleting === true && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
      },
      spec: { tenantId, workloadRef, resume: false, ...fields.spec },
      ...(status !== undefined && { status }),
    });
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
    return this.read(claims, name);
  }

  /** The operator's part: answers the claim's current attempt. */
  setStatus(name: string, status: ClaimStatus): void {
    const claim = this.claim(name);
    const attempt = claim.metadata.annotations?.[annotation.attempt];
    this.#addClaim({ ...claim, status: { ...status, ...(attempt !== undefined && { attempt }) } });
  }

  /** The operator's part: lets a released claim go. */
  removeClaim(name: string, options?: { from: "api" | "watches" }): void {
    this.remove(claims, name, options);
  }

  removePod(name: string): void {
    this.remove(pods, name);
  }

  /** An Event about an object of that uid. */
  addEvent({ kind, uid = "" }: { kind: string; uid: string | undefined }, event: { reason: string; at: string }): void {
    const metadata = { name: `event-${this.version}` };
    this.add(events, { metadata, involvedObject: { kind, uid }, reason: event.reason, lastTimestamp: event.at });
  }

  #addClaim(claim: Claim): Claim {
    const { instanceId } = claim.status ?? {};
    const uid = claim.metadata.uid ?? `uid-claim-${this.version}`;
    const whole = { ...claim, metadata: { ...claim.metadata, uid } };
    // Before the watch shows the claim, as a pod is bound before its claim is Active.
    if (claim.status?.phase === "Active" && instanceId !== undefined && !this.has(pods, instanceId)) this.podOf(whole);
    return this.add(claims, whole);
  }
}
