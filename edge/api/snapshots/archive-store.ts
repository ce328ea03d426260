import type { Clock } from "../../../crds/client/clock.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME } from "../../../crds/snapshots/snapshots-names.ts";
import { storeCommand } from "../../../crds/snapshots/store-folder.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";
import { type KubectlTrouble, kubectlTrouble } from "../../kubectl/kubectl-trouble.ts";
import { runInContainer } from "../../kubectl/run-in-container.ts";
import { sharedFailure } from "../../kubectl/shared-failure.ts";

const LIMIT_MS = 60_000;
const MAX_BYTES = 64 * 1024 * 1024;
const RETRY = { "retry-after": "1" };

/** A script of the store that ended by itself. */
export interface StoreAnswer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs one of the store's scripts in the helper pod, for at most 60 s.
 *
 * @param wish.words the script's own positional parameters
 * @throws HttpError 503 where the pod cannot be reached, and where more than 64 MiB come; 504 when the time is up; 499 when the client goes
 */
export async function runInStore(
  wish: { script: string; words: readonly string[]; namespace: string },
  options: { kubectl: Kubectl; clock: Clock; clientGone: AbortSignal | undefined },
): Promise<StoreAnswer> {
  const { script, words, namespace } = wish;
  const folder = { namespace, pod: SNAPSHOTS_NAME, container: SNAPSHOTS_CONTAINER };
  const { pod, container, command } = storeCommand(folder, { script, words, limitMs: LIMIT_MS });
  const run = await runInContainer({ pod, container, command, timeoutMs: LIMIT_MS, maxBytes: MAX_BYTES }, options);
  switch (run.kind) {
    case "ended":
      if (run.isCut) throw new HttpError(503, `the snapshots volume says more than ${MAX_BYTES} bytes`);
      return run;
    case "failed": {
      const trouble = kubectlTrouble(run.stderr);
      const error = failureOf(trouble);
      if (!(error instanceof HttpError)) throw error;
      throw new HttpError(error.status, error.message, { headers: error.headers, cause: new Error(trouble.line) });
    }
    case "late":
      throw new HttpError(504, `the snapshots volume has not answered after ${LIMIT_MS / 1000} s; try again later`);
    case "client gone":
      throw new HttpError(499, "the client went away");
    case "stopped":
      throw new HttpError(503, "the server stops; try again", { headers: RETRY });
    default:
      return run satisfies never;
  }
}

function failureOf(trouble: KubectlTrouble): Error {
  switch (trouble.kind) {
    case "no pod":
    case "not running":
    case "no program":
      return new HttpError(
        503,
        `the snapshots volume cannot be reached: its helper pod ${SNAPSHOTS_NAME} does not run at the moment`,
        { headers: RETRY },
      );
    case "no node":
      return new HttpError(503, `the node of the helper pod ${SNAPSHOTS_NAME} cannot be reached`, { headers: RETRY });
    case "cut":
      return new HttpError(503, `the connection to the helper pod ${SNAPSHOTS_NAME} broke; try again`, {
        headers: RETRY,
      });
    default:
      return sharedFailure(trouble);
  }
}
