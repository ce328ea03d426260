import { HttpError } from "../../http/http-error.ts";
import { quote } from "../../http/quote.ts";
import { clusterError, type KubectlError, parseKubectlError } from "../../kubectl/kubectl-errors.ts";

/** The 404 of an instance that does not exist, or of a pod that is not ours. */
export function instanceNotFound(name: string): HttpError {
  return new HttpError(404, `instance ${quote(name)} does not exist; GET /api/v1/instances lists those that do`);
}

const RETRY = { "retry-after": "1" };

/**
 * What a failure of kubectl itself comes to where it was about an instance, by what it printed.
 *
 * @returns an HttpError for what is foreseen, with kubectl's own words as its cause; an Error for the rest, which is answered as
 *   internal and logged
 */
export function instanceError(stderr: string, { name }: { name: string }): Error {
  const failure = parseKubectlError(stderr);
  const error = failureOf(failure, name);
  if (!(error instanceof HttpError)) return error;
  return new HttpError(error.status, error.message, { headers: error.headers, cause: new Error(failure.line) });
}

function failureOf(failure: KubectlError, name: string): Error {
  switch (failure.kind) {
    case "no previous run":
      return new HttpError(404, `instance ${quote(name)} has no previous run: its container never restarted`);
    case "no pod":
      return instanceNotFound(name);
    case "no program":
      return new HttpError(
        400,
        `body.command: cannot be started in the instance: ${failure.reason}; check the program's name`,
      );
    case "not running":
      return new HttpError(409, `instance ${quote(name)} does not run at the moment: ${failure.reason}`);
    case "no node":
      return new HttpError(503, `the node of instance ${quote(name)} cannot be reached`, { headers: RETRY });
    case "cut":
      return new HttpError(503, `the connection to instance ${quote(name)} broke; a command may have run`, {
        headers: RETRY,
      });
    default:
      return clusterError(failure);
  }
}
