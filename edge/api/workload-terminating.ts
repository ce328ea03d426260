import { HttpError } from "../http/http-error.ts";
import { quote } from "../http/quote.ts";

/** The 409 of a workload that nothing new may use. */
export function workloadTerminating(name: string): HttpError {
  return new HttpError(
    409,
    `workload ${quote(name)} is being deleted, and goes when no claim and no pool uses it any more: use another, or create it anew then`,
  );
}
