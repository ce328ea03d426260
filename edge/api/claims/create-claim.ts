import type { Claim } from "../../../crds/claim.ts";
import { type ClaimKey, hasKey, isOver } from "../../../crds/claims/claim-key.ts";
import { isAlreadyExists } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, claimLabels, finalizer } from "../../../crds/labels.ts";
import { claimName, hashedClaimName, nextClaimName } from "../../../crds/names.ts";
import { formatTraceparent } from "../../../crds/tracing/trace-context.ts";
import type { Span } from "../../../crds/tracing/tracer.ts";
import { readWorkload, workloadTerminating } from "../workloads.ts";
import type { ClaimServices } from "./claim-services.ts";

/** More claims of one key than this do not stay behind when they are over. */
const MOST_NAMES = 8;

/**
 * Creates the claim of a key, or finds the one that somebody else created meanwhile.
 *
 * The finalizer is on it from the start, which saves the operator a write. Where the claim of another key has the
 * readable name, or one of this key whose release is over, this one gets the hashed name.
 *
 * @param options.span goes on the claim, so that the operator's steps belong to it
 * @returns the claim and whether this call created it; undefined where what was in the way has gone again: look anew
 * @throws HttpError 404 where there is no such workload, 409 where it is being deleted; nothing is created then
 */
export async function createClaim(
  request: ClaimKey & { resume: boolean; version?: string | undefined },
  services: Pick<ClaimServices, "cluster" | "namespace" | "cache" | "clock">,
  options: { signal: AbortSignal; span?: Span | undefined },
): Promise<{ claim: Claim; created: boolean } | undefined> {
  const { cluster, namespace, cache, clock } = services;
  const { tenantId, workloadRef, resume, version } = request;
  const { signal, span } = options;
  const seen = cache.workloads.store.get({ namespace, name: workloadRef });
  // A workload that was being deleted may have been created anew since.
  const isKnown = seen !== undefined && seen.metadata.deletionTimestamp === undefined;
  const workload = isKnown ? seen : await readWorkload(workloadRef, { cluster, signal });
  if (workload.metadata.deletionTimestamp !== undefined) throw workloadTerminating(workloadRef);
  const { uid = "", generation = 0 } = workload.metadata;
  let name = claimName(request);
  for (let tries = 1; tries <= MOST_NAMES; tries += 1) {
    try {
      const claim: Claim = {
        metadata: {
          name,
          namespace,
          labels: claimLabels(request),
          // The operator's watch may be behind what this edge has just read of the workload.
          annotations: {
            [annotation.workloadSeen]: `${uid}/${generation}`,
            [annotation.requestedAt]: new Date(clock.now()).toISOString(),
            ...(span !== undefined && { [annotation.traceparent]: formatTraceparent(span.context) }),
          },
          finalizers: [finalizer.release],
        },
        spec: { tenantId, workloadRef, resume, ...(version !== undefined && { resumeVersion: version }) },
      };
      return { claim: await cluster(claims).create(claim, { signal }), created: true };
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    const holder = await find(name);
    if (holder === undefined) return undefined;
    if (hasKey(holder, request) && !isOver(holder)) return { claim: holder, created: false };
    name = tries === 1 ? hashedClaimName(request) : nextClaimName(request, holder.metadata.uid ?? "");
  }
  throw new Error(`Cannot name a claim: other objects have ${MOST_NAMES} names of ${tenantId} on ${workloadRef}`);

  function find(name: string): Promise<Claim | undefined> {
    return cluster(claims).named(name).find({ signal });
  }
}
