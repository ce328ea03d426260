import { HttpError } from "../http/http-error.ts";
import type { KubectlTrouble } from "./kubectl-trouble.ts";

/** What a failure of kubectl comes to that has nothing to do with the pod it was about; an Error that is answered as internal for the rest. */
export function sharedFailure({ kind, line }: KubectlTrouble): Error {
  switch (kind) {
    case "no cluster":
      return new HttpError(503, "the cluster cannot be reached at the moment; try again shortly", {
        headers: { "retry-after": "1" },
      });
    case "forbidden":
      return new HttpError(
        500,
        "the cluster does not let this server do that; allow its account to create pods/exec and to get pods/log",
      );
    default:
      return new Error(`kubectl failed: ${line === "" ? "it said nothing" : line}`);
  }
}
