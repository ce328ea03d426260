import type { Pod } from "../../crds/kubernetes.ts";
import type { claimErrorReasons } from "../metrics.ts";
import type { ReconcileResult } from "../queue.ts";
import type { ClaimStatusPatch } from "./claim-status.ts";

export type ClaimErrorReason = (typeof claimErrorReasons)[number];

/** What a step of a claim's reconcile comes to. The steps find it; only `conclude` writes what follows from it. */
export type Outcome =
  | ReconcileResult
  | ((
      | { readonly next?: undefined }
      /** The claim cannot be fulfilled. */
      | { readonly next: "fail"; readonly reason: ClaimErrorReason; readonly message: string }
      /**
       * It goes on with another pod. `why` is what happened, for an Event; without it none is written. `saved` is the
       * SHA-256 of the archive with the files of the session, which the next pod gets.
       */
      | {
          readonly next: "replace";
          readonly why?: { readonly reason: string; readonly message: string };
          readonly saved?: string;
        }
      /** Its status is to say this. */
      | { readonly next: "write"; readonly status: ClaimStatusPatch }
      /** Its pod is its tenant's. */
      | { readonly next: "activate"; readonly pod: Pod }
      /**
       * It waits. It says so once that takes some seconds since that time of the API server, in milliseconds since the
       * epoch. @default at once
       */
      | { readonly next: "wait"; readonly reason: string; readonly message: string; readonly since?: number }
    ) & { readonly requeueAfterMs?: number | undefined });

/** A start that takes no longer is not looked into, and a wait not told: most are over by then. */
export const FIRST_REPORT_MS = 5000;

/** Looks again after the soonest of the waits, whatever else a step comes to. */
export function sooner(outcome: Outcome, ...waits: (number | undefined)[]): Outcome {
  const result = soonest(outcome?.requeueAfterMs, ...waits);
  return result === undefined ? outcome : { ...outcome, ...result };
}

export function soonest(...waits: (number | undefined)[]): ReconcileResult {
  const given = waits.filter((wait) => wait !== undefined);
  return given.length === 0 ? undefined : { requeueAfterMs: Math.min(...given) };
}
