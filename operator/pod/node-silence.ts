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
function signOfSilence({ metadata, status }: Pod): string | undefined {
  if (metadata.deletionTimestamp !== undefined) return `deleted ${metadata.deletionTimestamp}`;
  const condition = (type: string) => status?.conditions?.find((candidate) => candidate.type === type);
  const ready = condition("Ready");
  if (ready?.status !== "False" || ready.reason || condition("ContainersReady")?.status !== "True") return undefined;
  return `unready ${ready.lastTransitionTime}`;
}
