import type { Claim } from "../../crds/claim.ts";
import { isShown } from "../../crds/claims/claim-pod.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { currentRevision, isBoundTo, markChanges, ownerOf, podRevisionOf } from "../pod/pod-identity.ts";
import type { ClaimContext } from "./context.ts";

/**
 * The pods bound to a claim: the one that it has now, and the others that are not being deleted yet.
 *
 * A claim has one pod a revision: a cold pod's name follows from the revision, and a warm pod carries it since its
 * binding. An Active claim has the pod that its status names, whose files its tenant is writing; one that is still
 * Pending has the newest, since the binding of a warm pod counts from the moment that it stands on the pod. One in Error
 * has none: a warm pod that shows up only after the failure was given to nobody.
 */
export function claimPods(claim: Claim, context: ClaimContext): { current: Pod | undefined; stale: Pod[] } {
  const shown = shownPod(claim, context);
  const bound = podsBeside(shown, claim, context);
  const current = claim.status?.phase === "Active" ? shown : startingPod(claim, bound);
  return { current, stale: bound.filter((pod) => pod !== current && pod.metadata.deletionTimestamp === undefined) };
}

/** The pods that belong to a claim, as far as the caches show them. */
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
 * Whether somebody edited a pod of the claim, or one that says it is. It is repaired first: until then it can look
 * lost, or look like a pod of another claim.
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

/** The pod that the claim's status names, whatever its labels and annotations say. */
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
 * Reads the pod that a claim's status names from the API server into the store; undefined where it is gone, and where
 * the status names none.
 *
 * Claims and pods come by watches of their own, and either can be behind the other, a new leader's above all. So a pod
 * that the store does not show is not taken for gone before this, and files are not given up. A claim whose status
 * names no pod has no files to lose: a pod that was bound to it and that no watch has shown is deleted as an orphan.
 */
export async function readClaimPod(claim: Claim, { cluster }: ClaimContext): Promise<Pod | undefined> {
  const { instanceId } = claim.status ?? {};
  if (instanceId === undefined) return undefined;
  const pod = await cluster(pods).named(instanceId).find({ refresh: true });
  return pod !== undefined && (isShown(pod, claim) || isBoundTo(pod, claim)) ? pod : undefined;
}

/**
 * Whether the API server has the claim as the store does. Ask before a pod is deleted as stale or a claim is refused as
 * a duplicate: by an old state of the claim, its present pod would look stale. What was read is stored, which starts
 * the claim's next run.
 */
export async function isCurrent(claim: Claim, { cluster }: ClaimContext): Promise<boolean> {
  const present = await cluster(claims).of(claim).find({ refresh: true });
  return present?.metadata.resourceVersion === claim.metadata.resourceVersion;
}

/** By name where two operators that both believed they lead bound a pod each, so that they agree on one. */
function newestFirst(a: Pod, b: Pod): number {
  return podRevisionOf(b) - podRevisionOf(a) || (a.metadata.name < b.metadata.name ? -1 : 1);
}

/**
 * With which every pod that the claim has is stale: also a warm one that was bound ahead of the status while a cold one
 * was starting.
 */
export function nextRevision(claim: Claim, context: ClaimContext): number {
  return 1 + Math.max(currentRevision(claim), ...boundPods(claim, context).map(podRevisionOf));
}
