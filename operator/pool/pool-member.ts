import { isWarm } from "../../crds/claims/claim-pod.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { poolInstanceName } from "../../crds/names.ts";
import { podState } from "../pod/pod-state.ts";
import { lostReadiness } from "./lost-readiness.ts";

/** What a binding and a tenant's use leave on a pod. */
const TRACES = [
  annotation.claimUid,
  annotation.claim,
  annotation.incarnation,
  annotation.source,
  annotation.claimedAt,
  annotation.lastActivity,
];

/**
 * Where an unclaimed pod of a pool stands. `unready` is one whose program was ready and still runs: its node may be
 * lost, or its health check fails. The pool does not wait for it, and does not take it for a start that fails.
 */
export type MemberState = "ready" | "warming" | "unready" | "failed";
export const memberStatesOfPools: readonly MemberState[] = ["ready", "warming", "unready", "failed"];

/**
 * Whether no tenant ever had the pod: its name, which nobody can change, is one that pods get which are born in a pool,
 * and there is no trace of a binding. Labels alone do not say so, since they can be edited.
 */
export function isNobodys({ metadata: { name, labels, annotations } }: Pod): boolean {
  const suffix = /[^-]*$/.exec(name)?.[0];
  const workload = labels?.[label.workload];
  if (labels?.[label.managed] !== "true") return false;
  if (workload === undefined || !suffix || name !== poolInstanceName({ workload, suffix })) return false;
  if (labels[label.tenant] !== undefined || labels[label.binding] !== undefined) return false;
  return TRACES.every((key) => annotations?.[key] === undefined);
}

/** By pod, which never changes once it is stored: indexes and controllers ask several times about the pod of a change. */
const states = new WeakMap<Pod, { readonly state: MemberState | undefined }>();

/**
 * How an unclaimed pod of a pool stands; undefined for a claimed pod and for one that is going. One that carries the
 * pool's label and was a tenant's once has failed: it is never counted as ready, and goes.
 */
export function memberState(pod: Pod): MemberState | undefined {
  let known = states.get(pod);
  if (known === undefined) {
    known = { state: findMemberState(pod) };
    states.set(pod, known);
  }
  return known.state;
}

/** How the pod of a change stands now, and how it stood before. */
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
  if (!isNobodys(pod)) return "failed";
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
 * The values under which the store's `pool` index finds a pod: by pool and state, and by pool, state and template, so
 * that a pool is counted without looking at its pods.
 */
export function poolIndex(pod: Pod): string[] {
  const state = memberState(pod);
  const pool = pod.metadata.labels?.[label.pool];
  if (state === undefined || pool === undefined) return [];
  return [`${pool}/${state}`, `${pool}/${state}/${templateOf(pod)}`];
}

/**
 * The values under which the store's `warm` index finds a claimable pod: by workload, with its template, and with its
 * isolation.
 */
export function warmIndex(pod: Pod): string[] {
  const workload = pod.metadata.labels?.[label.workload];
  if (workload === undefined || memberState(pod) !== "ready") return [];
  return [workload, `${workload}/${templateOf(pod)}`, `${workload}/isolation/${isolationOf(pod)}`];
}

/** The hash that {@link isolationHash} gave for a pod; empty for one of a version that had none. */
export function isolationOf(pod: Pod): string {
  return pod.metadata.annotations?.[annotation.isolation] ?? "";
}

function templateOf(pod: Pod): string {
  return pod.metadata.annotations?.[annotation.templateHash] ?? "";
}
