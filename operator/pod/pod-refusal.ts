import { ApiError } from "../../crds/client/api-error.ts";
import { amountOf } from "../room/quota-room.ts";

/** Why the API server refuses a pod. */
export interface PodRefusal {
  /** `QuotaExceeded`: a quota or limit. `PodRefused`: an admission policy or the schema. */
  readonly reason: "QuotaExceeded" | "PodRefused";
  /** The API server's message, and the workload's field to change if it is known. */
  readonly message: string;
  /** The quota that is used up, if the pod would fit into it alone. A pod that is larger never fits. */
  readonly fullQuota?: FullQuota | undefined;
}

export interface FullQuota {
  readonly name: string;
  /** As the quota names them, such as `pods` and `requests.memory`. */
  readonly resources: readonly string[];
}

/** The refusal in the API server's answer to the creation of a pod; undefined if a retry may help. */
export function podRefusal(error: unknown): PodRefusal | undefined {
  if (!(error instanceof ApiError) || ![400, 403, 422].includes(error.status)) return undefined;
  const { status, message } = error;
  // Of a quota whose use has not been counted yet.
  if (/status unknown for quota/.test(message)) return undefined;
  const fullQuota = status === 403 ? fullQuotaOf(message) : undefined;
  const isQuota = status === 403 && /exceeded quota|failed quota|maximum|minimum/.test(message);
  const field = /RuntimeClass "[^"]*" not found/.test(message)
    ? ": change spec.runtimeClassName of the workload, or create the RuntimeClass that it names"
    : /no PriorityClass with name/.test(message)
      ? ": change spec.scheduling.priorityClassName of the workload, or create the PriorityClass that it names"
      : "";
  return { reason: isQuota ? "QuotaExceeded" : "PodRefused", message: `${message}${field}`, fullQuota };
}

/** https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go */
function fullQuotaOf(message: string): FullQuota | undefined {
  const [, name, requested = "", limited = ""] =
    /exceeded quota: ([^,]+), requested: (\S+), used: \S+, limited: (\S+)/.exec(message) ?? [];
  if (name === undefined) return undefined;
  const limits = amountsOf(limited);
  const needs = [...amountsOf(requested)];
  const isTooLarge = needs.some(([resource, amount]) => amount > (limits.get(resource) ?? Number.POSITIVE_INFINITY));
  return isTooLarge ? undefined : { name, resources: needs.map(([resource]) => resource) };
}

/** @param list such as `pods=1,requests.cpu=500m` */
function amountsOf(list: string): Map<string, number> {
  return new Map(
    list.split(",").map((item) => {
      const [resource = "", quantity = ""] = item.split("=");
      return [resource, amountOf(quantity)];
    }),
  );
}
