import { isDeepStrictEqual } from "node:util";
import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { isDestroyed } from "../../crds/claims/claim-pod.ts";
import { claims } from "../../crds/kinds.ts";
import { type Condition, nextConditions, READINESS, readiness } from "../../crds/schema/condition.ts";
import type { OperatorContext } from "../context.ts";

/** The fields of a status to change; `null` removes one. */
export type ClaimStatusPatch = { [Field in keyof ClaimStatus]?: ClaimStatus[Field] | null };

/**
 * Patches a claim's status if the claim has not changed since it was read, and caches the answer at once. Sets the
 * conditions of readiness from the other fields.
 *
 * @throws ApiError 409 if the claim has changed since it was read, 404 if it is gone
 */
export async function patchClaimStatus(
  claim: Claim,
  status: ClaimStatusPatch,
  context: OperatorContext,
): Promise<Claim> {
  const conditions = conditionsWith(claim, status);
  const observedGeneration = claim.metadata.generation ?? 0;
  const { expiresAt = null } = claim.spec;
  const expiry = (claim.status?.expiresAt ?? null) === expiresAt ? {} : { expiresAt };
  return await context
    .cluster(claims)
    .of(claim)
    .patchStatus({ observedGeneration, ...expiry, ...status, conditions });
}

/** Whether a claim's conditions belong to its current spec; false if an earlier version of the operator wrote none. */
export function hasCurrentConditions(claim: Claim): boolean {
  return isDeepStrictEqual(claim.status?.conditions, conditionsWith(claim, {}));
}

function conditionsWith(claim: Claim, changes: ClaimStatusPatch): Condition[] {
  const before = claim.status;
  const { phase, reason, message, endpoint, conditions } = { ...before, ...changes };
  const isReady = phase === "Active" && endpoint != null && reason == null;
  const [unnamed, unsaid] =
    phase !== "Active"
      ? [phase ?? "Pending", `the claim is ${phase ?? "Pending"}`]
      : isReady
        ? ["Active", storyOf({ ...before, ...changes }, claim.spec.zone)]
        : ["NoEndpoint", "the instance has no address at this moment"];
  const state = isReady ? "ready" : isStalled() ? "stalled" : "reconciling";
  const now = readiness(state, { reason: reason ?? unnamed, message: message ?? unsaid });
  return [
    ...nextConditions(before?.conditions, now, { generation: claim.metadata.generation }),
    ...(conditions ?? []).filter(({ type }) => !READINESS.includes(type)),
  ];

  /** Whether the claim stays as it is until a person acts. */
  function isStalled(): boolean {
    switch (phase) {
      case "Error":
        return !comesWithWorkload(reason);
      case "ReleaseFailed":
        return reason === "RetryLimitExceeded";
      case "Active":
        return (reason != null && reason !== PROGRAM_ENDED) || isDestroyed(claim);
      default:
        return false;
    }
  }
}

/**
 * How a claim became Active, for `kubectl describe`: a success has no Event.
 *
 * @param wanted the zone that the claim prefers
 */
function storyOf({ instanceId, source, timeline, zone }: ClaimStatusPatch, wanted: string | undefined): string {
  const steps = timeline ?? [];
  const seconds = (Date.parse(steps.at(-1)?.at ?? "") - Date.parse(steps[0]?.at ?? "")) / 1000;
  const took = seconds >= 0 ? `, ready ${seconds.toFixed(1)} s after the request` : "";
  const where = wanted === undefined ? "" : placeOf(zone ?? undefined, wanted);
  return `instance ${instanceId ?? "without a name"} runs for the tenant (source ${source ?? "unknown"}${took})${where}`;
}

function placeOf(zone: string | undefined, wanted: string): string {
  if (zone === wanted) return ` in zone ${zone}`;
  if (zone !== undefined) return ` in zone ${zone}, and not in zone ${wanted}, which the claim prefers`;
  return ": its zone is not known, since its node has no label for it, or the operator does not watch nodes";
}

/** Whether a claim that failed for the reason is tried again by itself once the workload exists. */
function comesWithWorkload(reason: string | null | undefined): boolean {
  return reason === "WorkloadNotFound" || reason === "WorkloadTerminating";
}

/** Whether the claim waits for a pod of its workload, or for the workload itself. */
export function isWaiting({ status }: Claim): boolean {
  if (status?.phase === "Error") return comesWithWorkload(status.reason);
  return (status?.phase ?? "Pending") === "Pending";
}

/** Whether the claim may be waiting for the helper pod. */
export function needsHelper({ status }: Claim): boolean {
  return status?.phase === "ReleaseFailed" || status?.reason === "SnapshotsUnavailable";
}

/** The reason of an Active claim whose program has ended, until the kubelet has started it again. */
export const PROGRAM_ENDED = "ProgramEnded";

/** The condition that says whether the files of a release were saved. */
export const FILES_SAVED = "FilesSaved";

/** The condition that says whether the checkpoints of an Active claim succeed, once one has failed. */
export const CHECKPOINTED = "Checkpointed";

/** The conditions of a claim without the one of that type. */
export function otherConditions({ status }: Claim, unwanted: string): Condition[] {
  return (status?.conditions ?? []).filter(({ type }) => type !== unwanted);
}

/** Since when a release could not save its files, in milliseconds since the epoch; undefined if no save failed. */
export function failedSaveSince({ status }: Claim): number | undefined {
  if (status?.phase !== "ReleaseFailed") return undefined;
  const since = Date.parse(status.conditions?.find(({ type }) => type === FILES_SAVED)?.lastTransitionTime ?? "");
  return Number.isNaN(since) ? undefined : since;
}
