import { containerRun, isPodReady, podAddress } from "../../crds/claims/claim-pod.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod, PodSpec } from "../../crds/kubernetes.ts";
import { annotation, label, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { Resource } from "../../crds/resource.ts";
import { podReason, restartsOf } from "./pod-trouble.ts";

const readAnnotations = [
  annotation.claim,
  annotation.claimUid,
  annotation.claimedAt,
  annotation.lastActivity,
  annotation.idleTimeoutSeconds,
  annotation.overlayDirs,
];
const noSpec: PodSpec = { containers: [] };
const ready = [{ type: "Ready", status: "True" }];

const spec = Buffer.from(',"spec":{');
const status = Buffer.from('},"status":{');
const metadata = Buffer.from('"metadata":{');

/** Pods whose `spec` is not parsed: it is half of their JSON, and {@link slimPod} keeps nothing of it. */
export const podsWithoutSpec: Resource<Pod> = { ...pods, cut: cutSpecs };

/**
 * Cuts the `spec` out of the JSON of pods, in place, if only a `status` follows it. Both keys are found by search,
 * without parsing: inside a string their quotes would be escaped, and a pod's spec contains no `status`. A pod with
 * another `spec` inside (a volume's template) is left unchanged, as is one whose next `status` belongs to another pod:
 * that pod's `metadata` lies in between.
 */
export function cutSpecs(json: Buffer): Buffer {
  let read = 0;
  let written = 0;
  let start = json.indexOf(spec);
  while (start !== -1) {
    const end = json.indexOf(status, start);
    if (end === -1) break;
    const next = json.indexOf(spec, start + 1);
    const nextPod = json.indexOf(metadata, start);
    if ((next === -1 || next > end) && (nextPod === -1 || nextPod > end)) {
      if (written !== read) json.copyWithin(written, read, start);
      written += start - read;
      read = end + 1;
    }
    start = next === -1 || next > end ? next : json.indexOf(spec, end);
  }
  if (read === 0) return json;
  json.copyWithin(written, read);
  return json.subarray(0, written + json.length - read);
}

/**
 * Whether a pod is ready, by the proof of the operator that its current run lasts if it has one. Only pods whose
 * program has no probe have a proof.
 */
function isReady(pod: Omit<Pod, "spec">): boolean {
  const proven = pod.metadata.annotations?.[annotation.provenRun];
  const isPooled = pod.metadata.labels?.[label.pool] !== undefined;
  return isPodReady(pod) && (!isPooled || proven === undefined || proven === containerRun(pod));
}

/**
 * The fields of a pod that the edge reads, so that ten thousand pods fit into a few megabytes. Its `status.podIP` is a
 * current address, never a former one; its `status.reason` is {@link podReason}, and the restarts of all containers are
 * stored as those of one.
 */
export function slimPod(pod: Omit<Pod, "spec">): Pod {
  const { metadata, status } = pod;
  const podIP = podAddress(pod);
  const reason = podReason(pod);
  const restartCount = restartsOf(pod);
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels } = metadata;
  const annotations: Record<string, string> = {};
  for (const key of readAnnotations) {
    const value = metadata.annotations?.[key];
    if (value !== undefined) annotations[key] = value;
  }
  return {
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(labels !== undefined && { labels }),
      annotations,
    },
    spec: noSpec,
    status: {
      ...(status?.phase !== undefined && { phase: status.phase }),
      ...(podIP !== undefined && { podIP }),
      ...(isReady(pod) && { conditions: ready }),
      ...(reason !== undefined && { reason }),
      ...(restartCount > 0 && {
        containerStatuses: [{ name: WORKLOAD_CONTAINER, image: "", ready: false, restartCount }],
      }),
    },
  };
}

/** Whether a pod is bound to a claim, rather than warm in a pool. */
export function isClaimed({ metadata }: Pod): boolean {
  return metadata.annotations?.[annotation.claimUid] !== undefined;
}

/**
 * The pool of a pod, and whether the pod is `ready` or `warming`; undefined for a pod without a pool or one being
 * deleted. Uses the slim pod's own status, as claims and the pool's status do: the label may be seconds behind.
 */
export function poolPlace(pod: Pod): { readonly pool: string; readonly status: string } | undefined {
  const { labels, deletionTimestamp } = pod.metadata;
  const pool = labels?.[label.pool];
  if (pool === undefined || deletionTimestamp !== undefined) return undefined;
  return { pool, status: isPodReady(pod) ? "ready" : "warming" };
}

/** Value of the pods' index `pool` for the `ready` or `warming` pods of a pool. */
export function poolIndex({ pool, status }: { pool: string; status: string }): string {
  return `${pool}/${status}`;
}
