import { type Clock, systemClock } from "../../crds/client/clock.ts";
import type { Workload } from "../../crds/workload.ts";

/** Who waits for a build asks again sooner than this; whoever does not, waits no longer. */
const SILENT_MS = 60_000;

/** Whose turn it is to be built, in the order in which it was asked for. */
export interface BuildTurns {
  /** Names of Jobs that are being made at this moment. */
  readonly beingMade: Set<string>;
  /** Notes that a workload asks for its turn. */
  asks(workload: Workload): void;
  /** Whether a workload that was asked for earlier waits for its turn. */
  waits(workload: Workload): boolean;
}

/**
 * One that is refused, or whose reconcile fails each time, would otherwise keep all others waiting: it says no longer
 * that it waits.
 */
export function createBuildTurns({ clock = systemClock }: { clock?: Clock } = {}): BuildTurns {
  const since = clock.now();
  const asked = new Map<string, number>();
  return {
    beingMade: new Set(),
    asks({ metadata }) {
      for (const [uid, at] of asked) if (clock.now() - at > SILENT_MS) asked.delete(uid);
      asked.set(metadata.uid ?? "", clock.now());
    },
    waits(workload) {
      // Of a former leader's, some have not asked this one yet.
      const last = asked.get(workload.metadata.uid ?? "") ?? since;
      return isQueued(workload) && clock.now() - last <= SILENT_MS;
    },
  };
}

/** Whether a workload says that its build waits for its turn. */
export function isQueued({ metadata, status }: Workload): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase !== "Error" && status?.build?.reason === "Queued";
}
