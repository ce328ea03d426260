import { NetworkError } from "../../../crds/client/api-error.ts";
import { ExecError } from "../../../crds/client/exec/exec-outcome.ts";
import { quote } from "../../../crds/quote.ts";
import { HttpError } from "../../http/http-error.ts";
import { InsideError } from "../../inside/channel.ts";
import { instanceNotFound } from "../instances/instance.ts";

/** What a call was about. */
export interface InsideFailure {
  /** The path of a file, with a slash at its start, for people. */
  readonly path?: string;
  /** Whether the call may have changed something when its connection is lost. @default false */
  readonly mayHaveActed?: boolean;
}

/** The status for each code of the program; 409 for others. */
const statuses: ReadonlyMap<string, number> = new Map([
  ["invalid", 400],
  ["noProgram", 400],
  ["noFolder", 400],
  ["notFound", 404],
  ["noProcess", 404],
  ["noRange", 416],
  ["full", 507],
]);

/** The HTTP error for a failed call of the program in an instance's pod. Other errors are returned as they are. */
export function insideError(error: unknown, about: InsideFailure & { readonly name: string }): unknown {
  const { name, path, mayHaveActed = false } = about;
  if (error instanceof InsideError) {
    const { code } = error;
    const message = path === undefined ? `instance ${quote(name)}: ${error.message}` : `${path}: ${error.message}`;
    return new HttpError(statuses.get(code) ?? 409, message, { expected: true, cause: error });
  }
  if (error instanceof ExecError) {
    switch (error.reason) {
      case "PodGone":
        return instanceNotFound(name);
      case "ContainerNotRunning":
        return new HttpError(409, `instance ${quote(name)} is not running; try again once its program has started`);
      case "CommandNotFound":
        return new HttpError(
          409,
          `instance ${quote(name)} has no tools for this in its pod: set spec.tools of its workload, and TENANCY_TOOLS_IMAGE of the operator to an image that has them; then claim again`,
        );
      case "Failed":
        return new HttpError(503, `the program in instance ${quote(name)} cannot be reached; try again`, {
          ...{ headers: { "retry-after": "1" }, cause: error },
        });
    }
  }
  if (error instanceof NetworkError) {
    const acted = mayHaveActed && error.requestWasSent ? "; it may have been done" : "";
    return new HttpError(503, `the connection to instance ${quote(name)} was lost${acted}`, {
      ...{ headers: { "retry-after": "1" }, cause: error },
    });
  }
  return error;
}
