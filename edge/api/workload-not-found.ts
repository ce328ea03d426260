import { HttpError } from "../http/http-error.ts";
import { quote } from "../http/quote.ts";

/** The 404 of a workload that nobody has created. */
export function workloadNotFound(name: string): HttpError {
  return new HttpError(
    404,
    `workload ${quote(name)} does not exist; create it with POST /api/v1/workloads, or apply a TenancyWorkload with kubectl`,
  );
}
