import { ApiError } from "../../crds/client/api-error.ts";

/** Why the API server does not take a pod. */
export interface PodRefusal {
  /** Without room in a quota or a limit, or by an admission policy or the schema. */
  readonly reason: "QuotaExceeded" | "PodRefused";
  /** What the API server says, and the workload's field to change where that is known. */
  readonly message: string;
}

/** What an API server's answer to the creation of a pod refuses; undefined where trying again may help. */
export function podRefusal(error: unknown): PodRefusal | undefined {
  if (!(error instanceof ApiError) || ![400, 403, 422].includes(error.status)) return undefined;
  const { status, message } = error;
  const isQuota = status === 403 && /exceeded quota|failed quota|maximum|minimum/.test(message);
  const field = /RuntimeClass "[^"]*" not found/.test(message)
    ? ": change spec.runtimeClassName of the workload, or create the RuntimeClass that it names"
    : "";
  return { reason: isQuota ? "QuotaExceeded" : "PodRefused", message: `${message}${field}` };
}
