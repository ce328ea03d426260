import type { Claim } from "../../crds/claim.ts";
import { MOVING } from "../../crds/claims/claim-key.ts";
import { isShown } from "../../crds/claims/claim-pod.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { currentRevision, isBoundTo, markChanges, ownerOf, podRevisionOf } from "../pod/pod-identity.ts";
import type { ClaimContext } from "./context.ts";

/**
 * The pods bound to a claim: its current pod, and the others that are not being deleted yet.
 *
 * A claim has one pod for each revision. A cold pod's name is derived from the revision; a warm pod gets it at its
 * binding. The current pod of an Active claim is the one that its status names: the tenant writes its files there. A
 * Pending claim has the newest pod, since a warm pod is bound as soon as the pod says so. A claim in Error has none: a
 * warm pod that appears after the failure was not given to the tenant.
 */
export function claimPods(claim: Claim, context: ClaimContext): { current: Pod | undefined; stale: Pod[] } {
  const shown = shownPod(claim, context);
  const bound = podsBeside(shown, claim, context);
  const { phase, reason } = claim.status ?? {};
  const current = phase === "Active" || reason === MOVING ? shown : startingPod(claim, bound);
  return { current, stale: bound.filter((pod) => pod !== current && pod.metadata.deletionTimestamp === undefined) };
}

/** The pods of a claim that the caches show. */
export function boundPods(claim: Claim, context: ClaimContext): Pod[] {
  return podsBeside(shownPod(claim, context), claim, context);
}

function podsBeside(shown: Pod | undefined, claim: Claim, context: ClaimContext): Pod[] {
  const { uid } = claim.metadata;
  const bound = [...context.informers.pods.store.by("claimUid", uid ?? "")].filter(
    (pod) => pod !== shown && ownerOf(pod, context)?.metadata.uid === uid,
  );
  return shown === undefined ? bound : [shown, ...bound];
}

/**
 * Whether a pod that is bound to the claim, or claims to be, was edited by another client. It is repaired first: until
 * then it can look lost, or look like a pod of another claim.
 */
export function hasEditedPod(claim: Claim, context: ClaimContext): boolean {
  const shown = shownPod(claim, context);
  const bound = [...context.informers.pods.store.by("claimUid", claim.metadata.uid ?? "")];
  return [...bound, ...(shown === undefined ? [] : [shown])].some((pod) => {
    if (context.editedPods.has(pod.metadata.uid ?? "")) return true;
    const owner = ownerOf(pod, context);
    return owner !== undefined && markChanges(pod, { owner }) !== undefined;
  });
}

/** The pod that the claim's status names; its labels and annotations do not matter. */
function shownPod(claim: Claim, { informers }: ClaimContext): Pod | undefined {
  const { instanceId } = claim.status ?? {};
  if (instanceId === undefined) return undefined;
  const pod = informers.pods.store.get({ namespace: claim.metadata.namespace, name: instanceId });
  return pod !== undefined && isShown(pod, claim) ? pod : undefined;
}

function startingPod(claim: Claim, bound: readonly Pod[]): Pod | undefined {
  if (claim.status?.phase === "Error") return undefined;
  return bound.filter((pod) => podRevisionOf(pod) >= currentRevision(claim)).sort(newestFirst)[0];
}

/**
 * Reads the pod that a claim's status names from the API server into the cache; undefined if it is gone, or if the
 * status names none.
 *
 * Claims and pods have separate watches, and each can be behind the other, most of all after a change of leader. So
 * read a pod that the cache lacks here before you treat it as gone and give up its files. A claim whose status names no
 * pod has no files to lose: if a pod was bound to it and no watch has shown that, the pod is deleted as an orphan.
 */
export async function readClaimPod(claim: Claim, { cluster }: ClaimContext): Promise<Pod | undefined> {
  const { instanceId } = claim.status ?? {};
  if (instanceId === undefined) return undefined;
  const pod = await cluster(pods).named(instanceId).find({ refresh: true });
  return pod !== undefined && (isShown(pod, claim) || isBoundTo(pod, claim)) ? pod : undefined;
}

/**
 * Whether the cached claim is the newest. Ask before you delete a pod as stale or refuse a claim as a duplicate: by an
 * old state of the claim, its current pod looks stale. The answer is cached, which starts the claim's next run.
 */
export async function isCurrent(claim: Claim, { cluster }: ClaimContext): Promise<boolean> {
  const present = await cluster(claims).of(claim).find({ refresh: true });
  return present?.metadata.resourceVersion === claim.metadata.resourceVersion;
}

/** Two operators that both acted as leader may have bound a pod each: the name decides, so that they agree on one. */
function newestFirst(a: Pod, b: Pod): number {
  return podRevisionOf(b) - podRevisionOf(a) || (a.metadata.name < b.metadata.name ? -1 : 1);
}

/**
 * A revision that makes all pods of the claim stale. A warm pod can have a newer revision than the status, if it was
 * bound while a cold pod was starting.
 */
export function nextRevision(claim: Claim, context: ClaimContext): number {
  return 1 + Math.max(currentRevision(claim), ...boundPods(claim, context).map(podRevisionOf));
}
