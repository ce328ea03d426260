import type { Pod } from "../../crds/kubernetes.ts";
import type { claimErrorReasons } from "../metrics.ts";
import type { ReconcileResult } from "../queue.ts";
import type { ClaimStatusPatch } from "./claim-status.ts";

export type ClaimErrorReason = (typeof claimErrorReasons)[number];

/** The outcome of a step of a claim's reconcile. The steps return it; only `conclude` writes it to the claim. */
export type Outcome =
  | ReconcileResult
  | ((
      | { readonly next?: undefined }
      /** The claim cannot be fulfilled. */
      | { readonly next: "fail"; readonly reason: ClaimErrorReason; readonly message: string }
      /**
       * It goes on with another pod. `why` is what happened, for an Event; without it none is written. `saved` is the
       * SHA-256 of the archive with the files of the session, which the next pod gets; null gives up an earlier one.
       */
      | {
          readonly next: "replace";
          readonly why?: { readonly reason: string; readonly message: string };
          readonly saved?: string | null;
        }
      /** Its status is to say this. */
      | { readonly next: "write"; readonly status: ClaimStatusPatch }
      /** The pod is ready for its tenant; `programRun` as in the status. */
      | { readonly next: "activate"; readonly pod: Pod; readonly programRun?: string | undefined }
      /**
       * The claim waits. The status says so once the wait has taken {@link FIRST_REPORT_MS} since `since`, by the API
       * server's clock, in milliseconds since the epoch. @default at once
       */
      | { readonly next: "wait"; readonly reason: string; readonly message: string; readonly since?: number }
    ) & { readonly requeueAfterMs?: number | undefined });

/** After a failed precondition. The object's event starts the next run; this does if that event is lost. */
export const RECHECK = { requeueAfterMs: 1000 };

/** Shorter starts are not explained, and shorter waits not reported: most are over by then. */
export const FIRST_REPORT_MS = 5000;

/** Requeues an outcome after the soonest of the waits. */
export function sooner(outcome: Outcome, ...waits: (number | undefined)[]): Outcome {
  const result = soonest(outcome?.requeueAfterMs, ...waits);
  return result === undefined ? outcome : { ...outcome, ...result };
}

export function soonest(...waits: (number | undefined)[]): ReconcileResult {
  const given = waits.filter((wait) => wait !== undefined);
  return given.length === 0 ? undefined : { requeueAfterMs: Math.min(...given) };
}
