import { isPodReady, isWarm, podAddress } from "../../crds/claims/claim-pod.ts";
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
];
const noSpec: PodSpec = { containers: [] };
const ready = [{ type: "Ready", status: "True" }];

const spec = Buffer.from(',"spec":{');
const status = Buffer.from('},"status":{');
const metadata = Buffer.from('"metadata":{');

/** Pods whose `spec` is not parsed: it is half of their JSON, and what {@link slimPod} leaves holds none of it. */
export const podsWithoutSpec: Resource<Pod> = { ...pods, cut: cutSpecs };

/**
 * Cuts the `spec` out of the JSON of pods, in place, where nothing but a `status` comes after it. Both keys are searched
 * for and not parsed: inside of a string their quotes would be escaped, and a pod's spec holds no `status`. One with
 * another `spec` in it (a volume's template) is left alone, as is one whose next `status` is another pod's: that one's
 * `metadata` comes in between.
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
 * What the edge reads of a pod and nothing else, so that ten thousand of them fit into a few megabytes. Its
 * `status.podIP` is an address that it has, never one that it had; its `status.reason` is {@link podReason}, and the
 * restarts of all its containers are those of one.
 */
export function slimPod(pod: Pod): Pod {
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
      ...((labels?.[label.pool] === undefined ? isPodReady(pod) : isWarm(pod)) && { conditions: ready }),
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
 * Of which pool a pod is, and whether it is `ready` or `warming`; undefined for one that is none's, or that goes. By the
 * slim pod's own status, as claims go by it and the pool's status counts: the label may be seconds behind.
 */
export function poolPlace(pod: Pod): { readonly pool: string; readonly status: string } | undefined {
  const { labels, deletionTimestamp } = pod.metadata;
  const pool = labels?.[label.pool];
  if (pool === undefined || deletionTimestamp !== undefined) return undefined;
  return { pool, status: isPodReady(pod) ? "ready" : "warming" };
}

/** The value of the pods' index `pool` for those of a pool that are `ready`, or `warming`. */
export function poolIndex({ pool, status }: { pool: string; status: string }): string {
  return `${pool}/${status}`;
}
