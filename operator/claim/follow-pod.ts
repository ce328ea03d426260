import type { Claim } from "../../crds/claim.ts";
import { isDestroyed, isPodOf, podEndpoint } from "../../crds/claims/claim-pod.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { resourcesOf } from "../../crds/quotas/room.ts";
import { failureMessage, type PodState } from "../pod/pod-state.ts";
import { type ClaimStatusPatch, hasCurrentConditions, PROGRAM_ENDED, patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";

/** What is wrong with an Active claim, for its status and an Event. */
export interface Failure {
  readonly reason: string;
  readonly message: string;
}

/**
 * Writes to an Active claim the present address of its pod, whether its program has ended, keeps failing or cannot be
 * started, and the run in which it was started. All changes take one write.
 *
 * A pod whose sandbox is recreated has no address for a while, then another one. A claim whose program fails stays
 * Active, since its files are in that pod: the caller can release it.
 *
 * @returns the claim after the write
 */
export async function followPod(
  claim: Claim,
  {
    pod,
    state,
    programRun,
    ...started
  }: { pod: Pod; state: PodState; programRun?: string | undefined; failure?: Failure | undefined },
  context: ClaimContext,
): Promise<Claim> {
  const moved = await movedEndpoint(claim, pod, context);
  const failure = started.failure ?? failureOf(state, context);
  const shown = claim.status?.reason;
  // A program that keeps ending is reported once, until it runs again.
  const isRepeated = failure?.reason === PROGRAM_ENDED && shown !== undefined;
  const isNews = failure?.reason !== shown && !isRepeated && (failure !== undefined || state.state === "ready");
  // The claim became Active while usage was off, or under an earlier version.
  const isUncounted = context.usage.isOn && claim.status?.usageSince === undefined && !isDestroyed(claim);
  // The end of its use is recorded, but the write of the status that was to follow has failed.
  const againMs = isDestroyed(claim) ? undefined : context.usage.beginsAgainAt(claim);
  const hasChanged = moved !== undefined || isNews || programRun !== undefined || isUncounted || againMs !== undefined;
  if (!hasChanged && hasCurrentConditions(claim)) return claim;
  const written = await patchClaimStatus(
    claim,
    {
      phase: "Active",
      ...moved,
      ...(programRun !== undefined && { programRun }),
      ...(isUncounted && { usageSince: new Date().toISOString(), resources: resourcesOf(pod) ?? null }),
      ...(againMs !== undefined && { usageSince: new Date(againMs).toISOString() }),
      ...(isNews && { reason: null, message: null, ...failure }),
    },
    context,
  );
  if (isNews && failure !== undefined)
    context.events.record({ resource: claims, object: written, type: "Warning", ...failure });
  return written;
}

function failureOf(state: PodState, { config }: ClaimContext): Failure | undefined {
  if (state.state === "failed")
    return { reason: state.reason, message: `${failureMessage(state, config)}, then release and claim again` };
  if (state.state !== "starting" || state.end === undefined) return undefined;
  const { message, fix } = state.end;
  return {
    reason: PROGRAM_ENDED,
    message: `the program has ended and is started again (${message}); if it keeps ending, fix ${fix}`,
  };
}

/**
 * The endpoint to write, if the claim shows another than the pod has. Read from the API server, since the cache of pods
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
