import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";

/**
 * The pods bound to a claim: the one of its present incarnation, and those of earlier ones that are not being deleted yet.
 *
 * A claim has one pod an incarnation because the pod's name follows from it, or because the binding was written to the pod itself.
 */
export function claimPods(claim: Claim, { informers }: OperatorContext): { current: Pod | undefined; stale: Pod[] } {
  const incarnation = podIncarnation(claim);
  let current: Pod | undefined;
  const stale: Pod[] = [];
  for (const pod of informers.pods.store.by("claimUid", claim.metadata.uid ?? "")) {
    if (Number(pod.metadata.annotations?.[annotation.incarnation] ?? 0) === incarnation) current = pod;
    else if (pod.metadata.deletionTimestamp === undefined) stale.push(pod);
  }
  return { current, stale };
}

/** Which of its pods the claim has now, counted from 0. */
export function podIncarnation(claim: Claim): number {
  return claim.status?.podIncarnation ?? 0;
}
