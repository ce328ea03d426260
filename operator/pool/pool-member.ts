import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { podState } from "../pod/pod-state.ts";

/** Where an unclaimed pod of a pool stands. */
export type MemberState = "ready" | "warming" | "failed";

/** How an unclaimed pod of a pool stands; undefined for a claimed pod and for one that is going. */
export function memberState(pod: Pod): MemberState | undefined {
  const { labels, annotations, deletionTimestamp } = pod.metadata;
  if (labels?.[label.pool] === undefined || annotations?.[annotation.claimUid] !== undefined) return undefined;
  if (deletionTimestamp !== undefined) return undefined;
  const { state } = podState(pod);
  switch (state) {
    case "ready":
      return "ready";
    case "starting":
    case "unschedulable":
      return "warming";
    case "failed":
    case "needs-root":
    case "lost":
      return "failed";
    default:
      return state satisfies never;
  }
}

/**
 * The values under which the store's `pool` index finds a pod: by pool and state, and by pool, state and template, so that a pool is
 * counted without looking at its pods.
 */
export function poolIndex(pod: Pod): string[] {
  const state = memberState(pod);
  const pool = pod.metadata.labels?.[label.pool];
  if (state === undefined || pool === undefined) return [];
  return [`${pool}/${state}`, `${pool}/${state}/${templateOf(pod)}`];
}

/** The values under which the store's `warm` index finds a claimable pod: by workload, and by workload and template. */
export function warmIndex(pod: Pod): string[] {
  const workload = pod.metadata.labels?.[label.workload];
  if (workload === undefined || memberState(pod) !== "ready") return [];
  return [workload, `${workload}/${templateOf(pod)}`];
}

function templateOf(pod: Pod): string {
  return pod.metadata.annotations?.[annotation.templateHash] ?? "";
}
