import type { Claim } from "../../crds/claim.ts";
import { isPodOf, podEndpoint } from "../../crds/claims/claim-pod.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { failureMessage, type PodState } from "../pod/pod-state.ts";
import { type ClaimStatusPatch, hasCurrentConditions, PROGRAM_ENDED, patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";

/**
 * Shows on an Active claim where its pod listens at this moment, and whether its program has ended or keeps failing,
 * with one write for what changed.
 *
 * A pod whose sandbox is made anew has no address for a while, then another one. A program that fails leaves the claim
 * Active, since its files are in that pod; whoever holds it can release it.
 *
 * @returns the claim as it is then
 */
export async function followPod(
  claim: Claim,
  { pod, state }: { pod: Pod; state: PodState },
  context: ClaimContext,
): Promise<Claim> {
  const moved = await movedEndpoint(claim, pod, context);
  const failure = failureOf(state, context);
  const shown = claim.status?.reason;
  // One that keeps ending has said so until it runs again.
  const isRepeated = failure?.reason === PROGRAM_ENDED && shown !== undefined;
  const isNews = failure?.reason !== shown && !isRepeated && (failure !== undefined || state.state === "ready");
  if (moved === undefined && !isNews && hasCurrentConditions(claim)) return claim;
  const written = await patchClaimStatus(
    claim,
    { phase: "Active", ...moved, ...(isNews && { reason: null, message: null, ...failure }) },
    context,
  );
  if (isNews && failure !== undefined)
    context.events.record({ resource: claims, object: written, type: "Warning", ...failure });
  return written;
}

function failureOf(state: PodState, { config }: ClaimContext): { reason: string; message: string } | undefined {
  if (state.state === "failed")
    return { reason: state.reason, message: `${failureMessage(state, config)}, then release and claim again` };
  if (state.state !== "starting" || state.end === undefined) return undefined;
  const { message, mend } = state.end;
  return {
    reason: PROGRAM_ENDED,
    message: `the program has ended and is started again (${message}); if it keeps ending, fix ${mend}`,
  };
}

/**
 * The endpoint to write where the claim shows another than the pod has; the API server's word, since the store of pods
 * may be behind that of claims.
 */
async function movedEndpoint(
  claim: Claim,
  pod: Pod,
  { cluster }: ClaimContext,
): Promise<Pick<ClaimStatusPatch, "endpoint"> | undefined> {
  if (isShown(podEndpoint(pod))) return undefined;
  const present = await cluster(pods).of(pod).get({ refresh: true });
  const endpoint = isPodOf(present, claim) ? podEndpoint(present) : undefined;
  return isShown(endpoint) ? undefined : { endpoint: endpoint ?? null };

  function isShown(endpoint: ReturnType<typeof podEndpoint>): boolean {
    const shown = claim.status?.endpoint;
    return endpoint?.host === shown?.host && endpoint?.port === shown?.port;
  }
}
