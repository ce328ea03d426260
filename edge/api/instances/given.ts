import type { Claim } from "../../../crds/claim.ts";
import { isShown } from "../../../crds/claims/claim-pod.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import { HttpError } from "../../http/http-error.ts";
import { type InstanceServices, instanceNotFound } from "./instance.ts";

/** Whether a pod is its claim's, for a use of it. */
type IsGiven = (pod: Pod, claim: Claim) => boolean;

/**
 * Refuses a pod that does not belong to its tenant. The caches can only confirm that the claim has the instance; before
 * a refusal the cluster is asked, since either watch may be behind.
 *
 * @param isGiven @default also a pod whose release has begun: a person may want to look into it then
 * @returns the pod, which is a newer one than the cache's where that was asked for
 * @throws HttpError 409 if no claim has the instance yet, 404 if it is gone
 */
export async function requireGiven(
  known: Pod,
  { cluster, namespace, cache }: Pick<InstanceServices, "cluster" | "namespace" | "cache">,
  isGiven: IsGiven = isShownToTenant,
): Promise<Pod> {
  const { name } = known.metadata;
  const knownClaim = cache.claims.store.get({ namespace, name: known.metadata.annotations?.[annotation.claim] ?? "" });
  if (knownClaim !== undefined && isGiven(known, knownClaim)) return known;
  const pod = await cluster(pods).named(name).find();
  if (pod === undefined) throw instanceNotFound(name);
  const claimName = pod.metadata.annotations?.[annotation.claim];
  if (claimName === undefined) {
    throw new HttpError(409, `instance ${quote(name)} is an unclaimed warm pod: claim its workload first`);
  }
  const claim = await cluster(claims).named(claimName).find();
  if (claim !== undefined && isGiven(pod, claim)) return pod;
  throw new HttpError(
    409,
    `instance ${quote(name)} does not belong to its tenant: its claim ${quote(claimName)} ${standing(pod, claim)}; use the instance that an Active claim names`,
  );
}

function standing(pod: Pod, claim: Claim | undefined): string {
  if (claim === undefined) return "is gone";
  const phase = claim.status?.phase ?? "Pending";
  if (phase !== "Active") return `is ${phase}`;
  return isShown(pod, claim) ? "is being released" : "has another instance";
}

/** Whether the claim is Active with this pod, or was until its release began. */
function isShownToTenant(pod: Pod, claim: Claim): boolean {
  if (claim.metadata.uid !== pod.metadata.annotations?.[annotation.claimUid] || !isShown(pod, claim)) return false;
  return claim.status?.phase !== "Pending" && claim.status?.phase !== "Error";
}

/** Whether the claim is Active with this pod: nothing may change the files of one that is being saved. */
export function isActiveWith(pod: Pod, claim: Claim): boolean {
  return (
    isShownToTenant(pod, claim) &&
    claim.status?.phase === "Active" &&
    claim.metadata.deletionTimestamp === undefined &&
    pod.metadata.deletionTimestamp === undefined
  );
}
