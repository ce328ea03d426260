import { ApiError } from "../../../crds/client/api-error.ts";
import { HttpError } from "../../http/http-error.ts";

/** Time limit of one review, in milliseconds. */
export const REVIEW_MS = 5000;

/** Waits for a review of the API server. @throws HttpError 503 if it fails */
export async function reviewed<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (cause) {
    const isForbidden = cause instanceof ApiError && cause.status === 403;
    const says = isForbidden
      ? "the edge may not check tokens of ServiceAccounts: apply manifests/components/service-accounts"
      : "the cluster cannot check the token at the moment; try again shortly";
    throw new HttpError(503, says, { cause, headers: { "retry-after": "5" } });
  }
}
