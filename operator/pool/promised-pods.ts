import { steadyClock } from "../../crds/client/clock.ts";
import type { Pod } from "../../crds/kubernetes.ts";

/** A claim that has waited so long starts a pod of its own: the node of the promised pod may be lost. */
const LONGEST_WAIT_MS = 10_000;

/**
 * Which claim waits for which warming pod. A claim that finds no warm pod waits for a pod that is already starting: it
 * is ready before a cold pod would be, and saves an extra start.
 */
export interface PromisedPods {
  /**
   * Promises a claim a warming pod that no other claim waits for.
   *
   * @param warming returns the pods that can be promised; called only if the claim has no promise yet
   * @returns the pod and for how many milliseconds to wait for it; undefined without a pod, and once the claim has
   *   waited 10 s
   */
  promise(claimUid: string, warming: () => Iterable<Pod>): { pod: string; leftMs: number } | undefined;
  /** The uid of the claim that waits for the pod; undefined once it has waited 10 s. */
  claimOf(podUid: string): string | undefined;
  /** The claim needs no pod any more. @returns whether a pod is free for others now */
  forgetClaim(uid: string): boolean;
  /** The pod cannot become ready any more: its claim may be promised another. */
  forgetPod(uid: string): void;
}

interface Waiting {
  podUid: string | undefined;
  podName: string;
  readonly since: number;
}

export function createPromisedPods(clock = steadyClock): PromisedPods {
  const byClaim = new Map<string, Waiting>();
  const byPod = new Map<string, string>();

  return {
    promise(claimUid, warming) {
      const waiting: Waiting = byClaim.get(claimUid) ?? { podUid: undefined, podName: "", since: clock.now() };
      const leftMs = waiting.since + LONGEST_WAIT_MS - clock.now();
      if (leftMs <= 0) {
        if (waiting.podUid !== undefined) byPod.delete(waiting.podUid);
        waiting.podUid = undefined;
        return undefined;
      }
      if (waiting.podUid === undefined) {
        for (const { metadata } of warming()) {
          if (metadata.uid === undefined || byPod.has(metadata.uid)) continue;
          waiting.podUid = metadata.uid;
          waiting.podName = metadata.name;
          byPod.set(metadata.uid, claimUid);
          byClaim.set(claimUid, waiting);
          break;
        }
      }
      return waiting.podUid === undefined ? undefined : { pod: waiting.podName, leftMs };
    },
    claimOf(podUid) {
      const claimUid = byPod.get(podUid);
      const { since = 0 } = byClaim.get(claimUid ?? "") ?? {};
      return clock.now() < since + LONGEST_WAIT_MS ? claimUid : undefined;
    },
    forgetClaim(uid) {
      const { podUid } = byClaim.get(uid) ?? {};
      byClaim.delete(uid);
      return podUid !== undefined && byPod.delete(podUid);
    },
    forgetPod(uid) {
      const waiting = byClaim.get(byPod.get(uid) ?? "");
      byPod.delete(uid);
      if (waiting !== undefined) waiting.podUid = undefined;
    },
  };
}
