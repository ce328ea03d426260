import { SNAPSHOTS_NAME } from "../../../crds/snapshots/snapshots-names.ts";
import { HttpError } from "../../http/http-error.ts";
import type { StoreAnswer } from "./archive-store.ts";

/** The 503 of a script that failed on the volume itself; what it said is for the log. */
export function volumeFailure({ exitCode, stderr }: StoreAnswer): HttpError {
  return new HttpError(
    503,
    `the snapshots volume fails; see this server's log, and the volume of the helper pod ${SNAPSHOTS_NAME}`,
    { cause: new Error(`exit code ${exitCode}: ${stderr.trim().slice(-1000)}`) },
  );
}
