import { instanceNotFound } from "../api/instances/instance-not-found.ts";
import { HttpError } from "../http/http-error.ts";
import { quote } from "../http/quote.ts";
import { type KubectlTrouble, kubectlTrouble } from "./kubectl-trouble.ts";
import { sharedFailure } from "./shared-failure.ts";

const RETRY = { "retry-after": "1" };

/**
 * What a failure of kubectl itself comes to where it was about an instance, by what it printed.
 *
 * @returns an HttpError for what is foreseen, with kubectl's own words as its cause; an Error for the rest, which is answered as
 *   internal and logged
 */
export function kubectlFailure(stderr: string, { name }: { name: string }): Error {
  const trouble = kubectlTrouble(stderr);
  const error = failureOf(trouble, name);
  if (!(error instanceof HttpError)) return error;
  return new HttpError(error.status, error.message, { headers: error.headers, cause: new Error(trouble.line) });
}

function failureOf(trouble: KubectlTrouble, name: string): Error {
  switch (trouble.kind) {
    case "no previous run":
      return new HttpError(404, `instance ${quote(name)} has no previous run: its container never restarted`);
    case "no pod":
      return instanceNotFound(name);
    case "no program":
      return new HttpError(
        400,
        `body.command: cannot be started in the instance: ${trouble.reason}; check the program's name`,
      );
    case "not running":
      return new HttpError(409, `instance ${quote(name)} does not run at the moment: ${trouble.reason}`);
    case "no node":
      return new HttpError(503, `the node of instance ${quote(name)} cannot be reached`, { headers: RETRY });
    case "cut":
      return new HttpError(503, `the connection to instance ${quote(name)} broke; a command may have run`, {
        headers: RETRY,
      });
    default:
      return sharedFailure(trouble);
  }
}
