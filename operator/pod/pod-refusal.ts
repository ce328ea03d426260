import { ApiError } from "../../crds/client/api-error.ts";

/** Why the API server refuses a pod. */
export interface PodRefusal {
  /** `QuotaExceeded`: a quota or limit. `PodRefused`: an admission policy or the schema. */
  readonly reason: "QuotaExceeded" | "PodRefused";
  /** The API server's message, and the workload's field to change if it is known. */
  readonly message: string;
}

/** The refusal in the API server's answer to the creation of a pod; undefined if a retry may help. */
export function podRefusal(error: unknown): PodRefusal | undefined {
  if (!(error instanceof ApiError) || ![400, 403, 422].includes(error.status)) return undefined;
  const { status, message } = error;
  const isQuota = status === 403 && /exceeded quota|failed quota|maximum|minimum/.test(message);
  const field = /RuntimeClass "[^"]*" not found/.test(message)
    ? ": change spec.runtimeClassName of the workload, or create the RuntimeClass that it names"
    : /no PriorityClass with name/.test(message)
      ? ": change spec.scheduling.priorityClassName of the workload, or create the PriorityClass that it names"
      : "";
  return { reason: isQuota ? "QuotaExceeded" : "PodRefused", message: `${message}${field}` };
}
