import type { Claim } from "../../../crds/claim.ts";
import { HttpError } from "../../http/http-error.ts";

/** The answer to a claim that ended in `Error` or `ReleaseFailed`: the claim's own message. */
export function claimError({ spec, status }: Claim): HttpError {
  const { phase, reason, message } = status ?? {};
  const fallback =
    phase === "ReleaseFailed"
      ? `the last release of workload "${spec.workloadRef}" could not save the tenant's data; it is kept and tried again`
      : `the claim on workload "${spec.workloadRef}" failed${reason === undefined ? "" : `: ${reason}`}`;
  // A version that cannot be had is the caller's to change.
  const isVersion = reason === "RestoreFailed" && spec.resumeVersion !== undefined;
  const code = phase === "ReleaseFailed" ? 500 : isVersion ? 409 : statusOf(reason);
  return new HttpError(code, message || fallback, { expected: true });
}

function statusOf(reason: string | undefined): number {
  switch (reason) {
    case "WorkloadNotFound":
      return 404;
    case "Duplicate":
    case "WorkloadTerminating":
      return 409;
    case "QuotaExceeded":
      return 503;
    default:
      return 500;
  }
}
