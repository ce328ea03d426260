import { isWarm } from "../../crds/claims/claim-pod.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { poolInstanceName } from "../../crds/names.ts";
import { podState } from "../pod/pod-state.ts";
import { lostReadiness } from "./lost-readiness.ts";

/** Annotations that a binding and a tenant's use leave on a pod. */
const TRACES = [
  annotation.claimUid,
  annotation.claim,
  annotation.incarnation,
  annotation.source,
  annotation.claimedAt,
  annotation.lastActivity,
];

/**
 * The state of an unclaimed pod of a pool. `unready`: its program was ready and still runs, so its node may be lost, or
 * its health check fails. The pool does not wait for such a pod, and does not count it as a failed start.
 */
export type MemberState = "ready" | "warming" | "unready" | "failed";
export const memberStatesOfPools: readonly MemberState[] = ["ready", "warming", "unready", "failed"];

/**
 * Whether no tenant ever had the pod. Its name, which cannot be changed, has to be that of a pod created for a pool,
 * and it may have no trace of a binding. Labels alone are no proof, since people can edit them.
 */
export function neverHadTenant({ metadata: { name, labels, annotations } }: Pod): boolean {
  const suffix = /[^-]*$/.exec(name)?.[0];
  const workload = labels?.[label.workload];
  if (labels?.[label.managed] !== "true") return false;
  if (workload === undefined || !suffix || name !== poolInstanceName({ workload, suffix })) return false;
  if (labels[label.tenant] !== undefined || labels[label.binding] !== undefined) return false;
  return TRACES.every((key) => annotations?.[key] === undefined);
}

/** Indexes and controllers ask several times about each pod. A stored pod object never changes. */
const states = new WeakMap<Pod, { readonly state: MemberState | undefined }>();

/**
 * The state of an unclaimed pod of a pool; undefined for a claimed pod and for a pod that is being deleted. A pod with
 * the pool's label that once had a tenant is `failed`: it never counts as ready, and is deleted.
 */
export function memberState(pod: Pod): MemberState | undefined {
  let known = states.get(pod);
  if (known === undefined) {
    known = { state: findMemberState(pod) };
    states.set(pod, known);
  }
  return known.state;
}

/** The state of a change's pod now, and before the change. */
export function memberStates({
  type,
  object,
  previous,
}: Change<Pod>): [now: MemberState | undefined, before: MemberState | undefined] {
  return [type === "deleted" ? undefined : memberState(object), previous && memberState(previous)];
}

function findMemberState(pod: Pod): MemberState | undefined {
  const { labels, annotations, deletionTimestamp } = pod.metadata;
  if (labels?.[label.pool] === undefined || annotations?.[annotation.claimUid] !== undefined) return undefined;
  if (deletionTimestamp !== undefined) return undefined;
  if (!neverHadTenant(pod)) return "failed";
  const { state } = podState(pod);
  switch (state) {
    case "ready":
      return isWarm(pod) ? "ready" : "warming";
    case "starting":
      return lostReadiness(pod).isSameRun ? "unready" : "warming";
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
 * The values of a pod in the cache's `pool` index: pool and state, and pool, state and template. So a pool is counted
 * without reading its pods.
 */
export function poolIndex(pod: Pod): string[] {
  const state = memberState(pod);
  const pool = pod.metadata.labels?.[label.pool];
  if (state === undefined || pool === undefined) return [];
  return [`${pool}/${state}`, `${pool}/${state}/${templateOf(pod)}`];
}

/**
 * The values of a claimable pod in the cache's `warm` index: its workload, alone, with its template and with its
 * isolation.
 */
export function warmIndex(pod: Pod): string[] {
  const workload = pod.metadata.labels?.[label.workload];
  if (workload === undefined || memberState(pod) !== "ready") return [];
  return [workload, `${workload}/${templateOf(pod)}`, `${workload}/isolation/${isolationOf(pod)}`];
}

/** The hash that {@link isolationHash} gave for a pod; empty if an earlier version created the pod without one. */
export function isolationOf(pod: Pod): string {
  return pod.metadata.annotations?.[annotation.isolation] ?? "";
}

function templateOf(pod: Pod): string {
  return pod.metadata.annotations?.[annotation.templateHash] ?? "";
}
