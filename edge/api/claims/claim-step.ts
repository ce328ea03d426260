import type { Claim } from "../../../crds/claim.ts";
import { canonicalClaim } from "../../../crds/claims/claim-key.ts";
import { isDestroyed } from "../../../crds/claims/claim-pod.ts";
import { annotation } from "../../../crds/labels.ts";
import { HttpError } from "../../http/http-error.ts";
import { RETRY_AFTER } from "./tenant-quota.ts";

/** The next step of a claim call. */
export type ClaimStep =
  | { readonly kind: "create" }
  /** The claim is Active; its pod must still be checked. */
  | { readonly kind: "answer"; readonly claim: Claim }
  /** The operator is working on the claim, or its release is in progress. */
  | { readonly kind: "wait"; readonly claim: Claim }
  /** An attempt of another call has failed, or its pod was destroyed: start a new attempt. */
  | { readonly kind: "revive"; readonly claim: Claim }
  | { readonly kind: "fail"; readonly claim: Claim };

/**
 * Decides the next step of a claim call from the claims of its key and the attempts that the call made or waited for.
 *
 * @param claims all claim objects of the key; more than one if kubectl created duplicates
 * @param shared {@link attemptKey} of each attempt that this call created, revived or waited for
 */
export function claimStep(claims: Iterable<Claim>, shared: ReadonlySet<string>): ClaimStep {
  const claim = canonicalClaim(claims);
  if (claim === undefined) return { kind: "create" };
  const phase = claim.status?.phase;
  if (phase === "ReleaseFailed") return { kind: "fail", claim };
  if (claim.metadata.deletionTimestamp !== undefined) return { kind: "wait", claim };
  switch (phase) {
    case "Active":
      return { kind: isDestroyed(claim) && !isAnswered(claim) ? "wait" : "answer", claim };
    case "Error":
      if (!isAnswered(claim)) return { kind: "wait", claim };
      return { kind: shared.has(attemptKey(claim)) ? "fail" : "revive", claim };
    case "Pending":
    case "Releasing":
    case "Released":
    case undefined:
      return { kind: "wait", claim };
    default:
      return phase satisfies never;
  }
}

function isAnswered({ metadata, status }: Claim): boolean {
  return status?.attempt === metadata.annotations?.[annotation.attempt];
}

/** Identifies the attempt that a claim's annotations request; another object or attempt has another key. */
export function attemptKey({ metadata }: Claim): string {
  return `${metadata.uid ?? ""}/${metadata.annotations?.[annotation.attempt] ?? ""}`;
}

/**
 * The response for a claim in `Error` or `ReleaseFailed`: the claim's own message.
 *
 * @param request.inputs what the call has brought
 */
export function claimError(
  { metadata, spec, status }: Claim,
  request: { inputs?: object | undefined } = {},
): HttpError {
  const { phase, reason, message } = status ?? {};
  const fallback =
    phase === "ReleaseFailed"
      ? `the last release of workload "${spec.workloadRef}" could not save the tenant's data; the data is kept and the save is retried`
      : `the claim on workload "${spec.workloadRef}" failed${reason === undefined ? "" : `: ${reason}`}`;
  // The caller must choose another version.
  const isVersion = reason === "RestoreFailed" && spec.resumeVersion !== undefined;
  const isInput = reason === "InvalidInputs" && request.inputs !== undefined;
  const code = phase === "ReleaseFailed" ? 500 : isVersion ? 409 : isInput ? 400 : statusOf(reason);
  const said = message || fallback;
  // The inputs of a claim cannot change.
  const remedy = isInput ? `; if its inputs are wrong, release the claim ${metadata.name}, and claim again` : "";
  const headers = code === 429 ? RETRY_AFTER : {};
  return new HttpError(code, said + remedy, { headers, expected: true });
}

function statusOf(reason: string | undefined): number {
  switch (reason) {
    case "WorkloadNotFound":
      return 404;
    case "Duplicate":
    case "WorkloadTerminating":
      return 409;
    case "TenantQuotaExceeded":
    case "TenantStartsExceeded":
      return 429;
    case "QuotaExceeded":
      return 503;
    default:
      return 500;
  }
}
