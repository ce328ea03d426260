/** API group of the four kinds. */
export const API_GROUP = "tenancy.dev";

/** Version of the four kinds. */
export const API_VERSION = "v1alpha1";

/** Label keys on pods and claims. */
export const label = {
  /** Always `true` on managed pods. */
  managed: "tenancy.dev/managed",
  /** The workload's name; on pods and claims. */
  workload: "tenancy.dev/workload",
  /** The tenant id; only on claimed pods, and on claims. */
  tenant: "tenancy.dev/tenant",
  /** The pool's name; only on warm pods. */
  pool: "tenancy.dev/pool",
  /** `warming` or `ready`; only on warm pods. */
  poolStatus: "tenancy.dev/pool-status",
  /** `<uid of the claim>.<incarnation>`; only on claimed pods, and unique for each. */
  binding: "tenancy.dev/binding",
  /** Always `true` on the Jobs that build images, and on their pods. */
  build: "tenancy.dev/build",
  /** The workload's name; only on pods that make a node pull its image. */
  prepull: "tenancy.dev/prepull",
} as const;

/** Begins the keys of a claim's own labels on its pods. */
export const CLAIM_LABEL_PREFIX = "claim.tenancy.dev/";

/** Annotation keys: what a later step needs is stamped on the object that it touches. */
export const annotation = {
  /** On a claimed pod: the uid of the claim that it is bound to. */
  claimUid: "tenancy.dev/claim-uid",
  /** On a claimed pod: the name of that claim, so that the claim can be read with only the pod. */
  claim: "tenancy.dev/claim",
  /** On a claimed pod: its revision, the claim's `status.podIncarnation` at the binding. */
  incarnation: "tenancy.dev/incarnation",
  /** On a claimed pod: one of the claim sources. */
  source: "tenancy.dev/source",
  /**
   * On a claimed pod: SHA-256 of the archive to restore into it; `none` if the claim asked for files and the tenant had
   * none. Absent if the claim did not ask for files.
   */
  resumedFrom: "tenancy.dev/resumed-from",
  /** The SHA-256 of the checkpoint that is restored into the pod, in the place of the archive that the session began with. */
  restoredFrom: "tenancy.dev/restored-from",
  /**
   * On a warm pod without a probe: the run of its program that has lasted long enough to count as ready
   * (docs/decisions/claims.md#a-program-without-a-probe-has-to-run-for-two-seconds).
   */
  provenRun: "tenancy.dev/proven-run",
  /** On a pod: hash of the template that it was rendered from. */
  templateHash: "tenancy.dev/template-hash",
  /**
   * On a pod: hash of the parts of its template that isolate its program. A claim takes a warm pod only if the hash
   * matches the present workload.
   */
  isolation: "tenancy.dev/isolation",
  /** On a pod with a proxy: the last settings of the proxy that came after the pod. */
  egressSettings: "tenancy.dev/egress-settings",
  /**
   * On a claim: `<uid>/<generation>` of its workload as known to the claim's creator; the operator ignores older
   * versions of the workload.
   */
  workloadSeen: "tenancy.dev/workload-seen",
  /** On a claimed pod: ISO 8601 time of the tenant's last activity. */
  lastActivity: "tenancy.dev/last-activity",
  /** On a claimed pod: ISO 8601 time of the binding. */
  claimedAt: "tenancy.dev/claimed-at",
  /** On a claim: ISO 8601 time of the API call, since `creationTimestamp` has whole seconds. */
  requestedAt: "tenancy.dev/requested-at",
  /**
   * On a claim: the requester's span as a `traceparent` (docs/how-to/trace.md); anyone who may write claims can set it.
   */
  traceparent: "tenancy.dev/traceparent",
  /** On a claim: digests of the secret variables of its claim call, to compare them with those of another call. */
  secretDigests: "tenancy.dev/secret-digests",
  /** On a claim: JSON of what E2B's SDKs are told of it as a sandbox. */
  e2b: "tenancy.dev/e2b",
  /** On a claim: changes if a caller claims again, so that an `Error` claim is retried. */
  attempt: "tenancy.dev/attempt",
  /** On a pod: JSON array of the overlay directories that a release archives. */
  overlayDirs: "tenancy.dev/overlay-dirs",
  /** On a pod with overlay directories: their total limit in GiB, which also limits their archive. */
  diskGb: "tenancy.dev/disk-gb",
  /**
   * On a pod with overlay directories: JSON of the workload's `filesystem.preSave`, with its defaults; absent without
   * one.
   */
  preSave: "tenancy.dev/pre-save",
  /** On a pod: JSON of the workload's `entrypoint.onClaim`, with its defaults; absent without one. */
  onClaim: "tenancy.dev/on-claim",
  /** On a pod: `hibernate` or `destroy`. */
  idleAction: "tenancy.dev/idle-action",
  /** On a pod: seconds without activity until its claim is released. */
  idleTimeoutSeconds: "tenancy.dev/idle-timeout-seconds",
  /** On a pod: `true` if its processes in the background count as use. */
  countBackground: "tenancy.dev/idle-count-background",
  /**
   * On a claim: name of the pod that a destroy call removed. The claim keeps its phase, and gets another pod at the
   * next claim call.
   */
  destroyed: "tenancy.dev/destroyed",
  /**
   * On a claim, set by a person or the edge: asks for a checkpoint with that name. The status says whether it was made.
   * A slash and an id may follow the name, which may be empty.
   */
  checkpoint: "tenancy.dev/checkpoint",
  /** On a claim, set by a person: `true` discards files that could not be saved. */
  discard: "tenancy.dev/discard",
  /**
   * On a claim: ISO 8601 time of the last API call that erased its snapshots. Its release saves the files even if none
   * was changed since the restore.
   */
  erasedAt: "tenancy.dev/erased-at",
  /**
   * On a claim that is released for idleness with `idle.action: destroy`: ISO 8601 time of the tenant's last activity.
   * Its release discards the files if there was no later activity.
   */
  discardIdleSince: "tenancy.dev/discard-idle-since",
  /**
   * On a claim that has expired under `idle.action` `destroy`: the `spec.expiresAt` that has passed. Its release gives
   * the files up while the spec still says so.
   */
  discardExpired: "tenancy.dev/discard-expired",
  /**
   * On the claim of the snapshots volume: `true` once the volume was seen with its mark
   * (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-trusted).
   */
  volumeMarked: "tenancy.dev/volume-marked",
  /** On the claim of the snapshots volume: the object storage that has stored the archives after the volume. */
  volumeLeft: "tenancy.dev/volume-left-for",
  /** On the Secret of the snapshots: the object storage that was last seen with the mark of archives. */
  objectStore: "tenancy.dev/object-store",
  /**
   * On the operators' Lease: ISO 8601 time since which the cluster's history is complete, or `unknown`, which a person
   * may set too. Earlier warm pods are not given to tenants, since a tenant may have used them.
   */
  historySince: "tenancy.dev/history-since",
  /** On the operators' Lease: ISO 8601 time up to which the sink has the events that follow from claims. */
  eventsSentUntil: "tenancy.dev/events-sent-until",
  /** On a pod, and on a Job that builds an image: the uid of its workload. */
  workloadUid: "tenancy.dev/workload-uid",
  /** On a workload: SHA-256 of the build context that was uploaded last. */
  buildContext: "tenancy.dev/build-context",
  /** On a workload, set by a person: another value builds the image again. */
  rebuild: "tenancy.dev/rebuild",
  /** On a Job that builds an image: SHA-256 of all inputs of the image. */
  buildKey: "tenancy.dev/build-key",
  /** On such a Job: JSON of its result, since its pod is deleted before the Job. */
  buildResult: "tenancy.dev/build-result",
} as const;

/** Finalizers of the kinds. */
export const finalizer = {
  /** On claims: held until the tenant's data is archived and the pod is gone. */
  release: "tenancy.dev/release",
  /** On workloads: held while claims or pools use them. */
  inUse: "tenancy.dev/in-use",
} as const;

/** The labels of every claim, which clients select claims by. */
export function claimLabels({ tenantId, workloadRef }: { tenantId: string; workloadRef: string }) {
  return { [label.tenant]: tenantId, [label.workload]: workloadRef };
}

/** The name of the workload's container in its pods. */
export const WORKLOAD_CONTAINER = "workload";

/** The program in the workload's container that starts processes and reads and writes files there for the edge. */
export const TOOLS_INSIDE = "/.tenancy/inside";

/**
 * The prefix of an annotation of a claimed pod; the name of an edge process follows. Its value is the ISO 8601 time
 * until which that process may have requests in flight there. A release waits until then, or until the process removes
 * it.
 */
export const IN_FLIGHT_PREFIX = "inflight.tenancy.dev/";
