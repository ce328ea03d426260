import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";

/**
 * The pods bound to a claim: the one that it has now, and the others that are not being deleted yet.
 *
 * A claim has one pod an incarnation, because the pod's name follows from it or the binding was written to the pod itself. An Active
 * claim has the pod that its status names, whose files its tenant is writing; one that is still Pending has the newest, since the
 * binding of a warm pod counts from the moment that it stands on the pod.
 */
export function claimPods(claim: Claim, { informers }: OperatorContext): { current: Pod | undefined; stale: Pod[] } {
  const bound = [...informers.pods.store.by("claimUid", claim.metadata.uid ?? "")];
  const current =
    claim.status?.phase === "Active"
      ? bound.find((pod) => pod.metadata.name === claim.status?.instanceId)
      : bound.filter((pod) => incarnationOf(pod) >= podIncarnation(claim)).sort(newestFirst)[0];
  return { current, stale: bound.filter((pod) => pod !== current && pod.metadata.deletionTimestamp === undefined) };
}

/** By name where two operators bound a pod each, both believing that they lead: so that they agree on one. */
function newestFirst(a: Pod, b: Pod): number {
  return incarnationOf(b) - incarnationOf(a) || (a.metadata.name < b.metadata.name ? -1 : 1);
}

/** Which of its claim's pods this one is. */
export function incarnationOf(pod: Pod): number {
  return Number(pod.metadata.annotations?.[annotation.incarnation] ?? 0);
}

/** Which of its pods the claim has now, counted from 0. */
export function podIncarnation(claim: Claim): number {
  return claim.status?.podIncarnation ?? 0;
}
