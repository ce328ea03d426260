import type { Pod } from "../../crds/kubernetes.ts";

/**
 * For how long nodes have not answered for their pods, as the pods alone show, since nodes are outside the namespace.
 *
 * Measured from the first look by a clock that nobody sets: a wrong clock, here or where the pod's status was written,
 * may not have files given up. A new leader counts anew.
 */
export interface NodeSilence {
  /** Milliseconds until the pod counts as left by its node, 0 when it does; undefined where the node answers. */
  leftMs(pod: Pod): number | undefined;
  forget(uid: string): void;
}

export function createNodeSilence(options: { limitMs: number; now?: () => number }): NodeSilence {
  const { limitMs, now = () => performance.now() } = options;
  const seen = new Map<string, { sign: string; since: number }>();
  return {
    leftMs(pod) {
      const { uid = "", deletionGracePeriodSeconds = 0 } = pod.metadata;
      const sign = signOfSilence(pod);
      if (sign === undefined) {
        seen.delete(uid);
        return undefined;
      }
      let found = seen.get(uid);
      if (found?.sign !== sign) {
        found = { sign, since: now() };
        seen.set(uid, found);
      }
      return Math.max(0, found.since + deletionGracePeriodSeconds * 1000 + limitMs - now());
    },
    forget(uid) {
      seen.delete(uid);
    },
  };
}

/**
 * What only a pod shows whose kubelet is not heard of: one that was deleted and is still there, or one that was made
 * unready although its containers are ready. The kubelet never writes that without a reason; the node lifecycle
 * controller does when a node's heartbeat fails, and changes nothing else. The value changes when the pod was well in
 * between.
 *
 * Follows https://kubernetes.io/docs/concepts/architecture/nodes/#node-controller
 */
function signOfSilence(pod: Pod): string | undefined {
  const { deletionTimestamp } = pod.metadata;
  if (deletionTimestamp !== undefined) return `deleted ${deletionTimestamp}`;
  return isMarkedByNode(pod) ? `unready ${readyCondition(pod)?.lastTransitionTime}` : undefined;
}

/** Whether the pod was made unready because its node's heartbeat failed. */
export function isMarkedByNode(pod: Pod): boolean {
  const ready = readyCondition(pod);
  const containersReady = pod.status?.conditions?.find(({ type }) => type === "ContainersReady");
  return ready?.status === "False" && !ready.reason && containersReady?.status === "True";
}

function readyCondition({ status }: Pod) {
  return status?.conditions?.find(({ type }) => type === "Ready");
}
