import type { Pod } from "../../crds/kubernetes.ts";

/**
 * For how long nodes have not answered for their pods. Read from the pods, since access to nodes takes a right in the
 * whole cluster.
 *
 * Measured from the first look with the monotonic clock: a wrong clock, here or where the pod's status was written,
 * must not lose files. A new leader starts from zero.
 */
export interface NodeSilence {
  /** Milliseconds until the pod's node counts as lost, 0 if it does; undefined if the node answers. */
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
 * The sign that the pod's kubelet does not answer; undefined without one. Either the pod is deleted and still exists.
 * Or it is not ready although its containers are ready, and the condition has no reason: the kubelet always gives one,
 * the node lifecycle controller does not when a node's heartbeat fails. The value differs if the node answered in
 * between.
 *
 * Follows https://kubernetes.io/docs/concepts/architecture/nodes/#node-controller
 */
function signOfSilence(pod: Pod): string | undefined {
  const { deletionTimestamp } = pod.metadata;
  if (deletionTimestamp !== undefined) return `deleted ${deletionTimestamp}`;
  return isMarkedByNode(pod) ? `unready ${readyCondition(pod)?.lastTransitionTime}` : undefined;
}

/** Whether the node lifecycle controller marked the pod as not ready, since its node's heartbeat failed. */
export function isMarkedByNode(pod: Pod): boolean {
  const ready = readyCondition(pod);
  const containersReady = pod.status?.conditions?.find(({ type }) => type === "ContainersReady");
  return ready?.status === "False" && !ready.reason && containersReady?.status === "True";
}

function readyCondition({ status }: Pod) {
  return status?.conditions?.find(({ type }) => type === "Ready");
}
