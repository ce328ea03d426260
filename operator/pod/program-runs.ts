import { unprobedRun } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { type PodState, podState } from "./pod-state.ts";

/** A program that no probe checks counts as started once it has run for this long: many that fail end sooner. */
const PROOF_MS = 2000;

/**
 * For how long the programs of pods without a probe have run. The kubelet calls such a pod Ready as soon as its program
 * was started.
 *
 * Measured from the first look by the steady clock, since the node's clock and this process's may differ.
 */
export interface ProgramRuns {
  /** Milliseconds until the program of a Ready pod counts as started; 0 where it does, or where a probe decides. */
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

/** How a claimed pod stands, and in how many milliseconds to look again where that is a matter of time alone. */
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
