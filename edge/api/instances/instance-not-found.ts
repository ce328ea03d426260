import { HttpError } from "../../http/http-error.ts";
import { quote } from "../../http/quote.ts";

/** The 404 of an instance that does not exist, or of a pod that is not ours. */
export function instanceNotFound(name: string): HttpError {
  return new HttpError(404, `instance ${quote(name)} does not exist; GET /api/v1/instances lists those that do`);
}
