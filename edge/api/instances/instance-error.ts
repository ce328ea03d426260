import { HttpError } from "../../http/http-error.ts";
import { quote } from "../../http/quote.ts";
import { type KubectlError, kubectlError } from "../../kubectl/kubectl-errors.ts";

/** The 404 of an instance that does not exist, or of a pod that is not ours. */
export function instanceNotFound(name: string): HttpError {
  return new HttpError(404, `instance ${quote(name)} does not exist; GET /api/v1/instances lists those that do`);
}

const RETRY = { "retry-after": "1" };

/** What a failure of kubectl itself comes to where it was about an instance. @returns as {@link kubectlError} does */
export function instanceError(stderr: string, { name }: { name: string }): Error {
  return kubectlError(stderr, (failure) => describe(failure, name));
}

function describe(failure: KubectlError, name: string): HttpError | undefined {
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
      return undefined;
  }
}
