import type { Claim } from "../../../crds/claim.ts";
import { isAlreadyExists, isNotFound } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, claimLabels, finalizer } from "../../../crds/labels.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import type { ClaimPair } from "../../cluster/claim-key.ts";
import { samePair } from "../../cluster/claim-key.ts";
import { readWorkload, workloadTerminating } from "../read-workload.ts";
import type { ClaimServices } from "./claim-services.ts";

/**
 * Creates the pair's claim, or finds the one that somebody else created meanwhile.
 *
 * The finalizer is on it from the start, which saves the operator a write. Where another pair's claim has the readable name, the
 * hashed one is taken.
 *
 * @returns the claim and whether this call created it; undefined where what was in the way has gone again: look anew
 * @throws HttpError 404 where there is no such workload, 409 where it is being deleted; nothing is created then
 */
export async function createClaim(
  wish: ClaimPair & { resume: boolean; version?: string | undefined },
  services: Pick<ClaimServices, "client" | "namespace" | "view">,
  options: { signal: AbortSignal },
): Promise<{ claim: Claim; created: boolean } | undefined> {
  const { client, namespace, view } = services;
  const { tenantId, workloadRef, resume, version } = wish;
  const { signal } = options;
  const seen = view.workloads.store.get(`${namespace}/${workloadRef}`);
  // One that was on its way out may have been made anew since.
  const isStanding = seen !== undefined && seen.metadata.deletionTimestamp === undefined;
  const workload = isStanding ? seen : await readWorkload(workloadRef, { client, namespace, signal });
  if (workload.metadata.deletionTimestamp !== undefined) throw workloadTerminating(workloadRef);
  const { uid = "", generation = 0 } = workload.metadata;
  for (const name of [claimName(wish), hashedClaimName(wish)]) {
    try {
      const claim: Claim = {
        metadata: {
          name,
          namespace,
          labels: claimLabels(wish),
          // The operator's own watch may not have shown yet what this edge was just told of the workload.
          annotations: { [annotation.workloadSeen]: `${uid}/${generation}` },
          finalizers: [finalizer.release],
        },
        spec: { tenantId, workloadRef, resume, ...(version !== undefined && { resumeVersion: version }) },
      };
      return { claim: await client.create(claims, claim, { signal }), created: true };
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    const holder = await find(name);
    if (holder === undefined) return undefined;
    if (samePair(holder, wish)) return { claim: holder, created: false };
  }
  throw new Error(`Cannot name a claim: both names of ${tenantId} on ${workloadRef} belong to other pairs`);

  async function find(name: string): Promise<Claim | undefined> {
    try {
      return await client.get(claims, { namespace, name }, { signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }
}
