import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { claims } from "../../crds/kinds.ts";
import type { OperatorContext } from "../context.ts";

/** The fields of a status to change; `null` removes one. */
export type ClaimStatusPatch = { [Field in keyof ClaimStatus]?: ClaimStatus[Field] | null };

/**
 * Patches a claim's status, on the condition that the claim is still as it was read, and stores the answer at once.
 *
 * @throws ApiError with status 409 when somebody else wrote the claim meanwhile, 404 when it is gone
 */
export async function patchClaimStatus(
  claim: Claim,
  status: ClaimStatusPatch,
  context: OperatorContext,
): Promise<Claim> {
  const { name, namespace = "", resourceVersion, generation } = claim.metadata;
  const body = { metadata: { resourceVersion }, status: { observedGeneration: generation ?? 0, ...status } };
  const written = await context.client.patch(
    claims,
    { namespace, name },
    { type: "merge", subresource: "status", body },
  );
  context.informers.claims.put(written);
  return written;
}
