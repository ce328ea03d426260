import type { Measurement } from "../report/measurement.ts";
import type { ClaimOutcome } from "./claim-call.ts";

/** Collects what became of the claims of one path. */
export interface Tally {
  /** @param ms from the intended moment of sending to the whole answer */
  add(outcome: ClaimOutcome, ms: number): void;
  /** How many have ended. */
  readonly size: number;
  /** The pods that were given out. */
  readonly instanceIds: ReadonlySet<string>;
  /** The pod of the last claim, unless that failed. */
  readonly lastInstanceId: string | undefined;
  readonly outcome: Pick<Measurement, "samplesMs" | "missed" | "failures">;
}

/** @param source which source the answers must have to count as the path that is measured */
export function createTally(source: string): Tally {
  const samplesMs: number[] = [];
  const failures: Record<string, number> = {};
  const instanceIds = new Set<string>();
  let missed = 0;
  let lastInstanceId: string | undefined;
  return {
    add(outcome, ms) {
      lastInstanceId = outcome.kind === "failed" ? undefined : outcome.instanceId;
      if (outcome.kind === "failed") {
        samplesMs.push(Number.POSITIVE_INFINITY);
        failures[outcome.why] = (failures[outcome.why] ?? 0) + 1;
        return;
      }
      samplesMs.push(ms);
      instanceIds.add(outcome.instanceId);
      if (outcome.source !== source) missed += 1;
    },
    get size() {
      return samplesMs.length;
    },
    instanceIds,
    get lastInstanceId() {
      return lastInstanceId;
    },
    get outcome() {
      return { samplesMs, missed, failures };
    },
  };
}
