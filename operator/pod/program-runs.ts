import { unprobedRun } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { type PodState, podState } from "./pod-state.ts";

/** A program without a probe counts as started once it has run for so long: many failing programs end sooner. */
export const PROOF_MS = 2000;

/**
 * For how long the programs of pods without a probe have run. The kubelet makes such a pod Ready as soon as it has
 * started the program.
 *
 * Measured from the first look with the monotonic clock, since the node's clock may differ from this process's.
 */
export interface ProgramRuns {
  /** Milliseconds until the program of a Ready pod counts as started; 0 if it does, or if the pod has a probe. */
  leftMs(pod: Pod): number;
  forget(uid: string): void;
}

export function createProgramRuns({ now = () => performance.now() }: { now?: () => number } = {}): ProgramRuns {
  const seen = new Map<string, { run: string; since: number }>();
  return {
    leftMs(pod) {
      const { uid = "", annotations } = pod.metadata;
      const run = unprobedRun(pod);
      if (run === undefined || annotations?.[annotation.provenRun] === run) return 0;
      let found = seen.get(uid);
      if (found?.run !== run) {
        found = { run, since: now() };
        seen.set(uid, found);
      }
      return Math.max(0, found.since + PROOF_MS - now());
    },
    forget(uid) {
      seen.delete(uid);
    },
  };
}

/** The state of a claimed pod, and in how many milliseconds to look again if only time can change the state. */
export function claimedPodState(
  pod: Pod,
  { programRuns }: { programRuns: ProgramRuns },
): { readonly state: PodState; readonly againInMs?: number } {
  const state = podState(pod);
  const leftMs = state.state === "ready" ? programRuns.leftMs(pod) : 0;
  if (leftMs === 0) return { state };
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const message = `the program runs, and counts as ready after ${PROOF_MS / 1000} s: the workload has no health check and no port`;
  return { state: { state: "starting", since: scheduled?.lastTransitionTime, message }, againInMs: leftMs };
}
