import { type Clock, systemClock } from "../../crds/client/clock.ts";
import type { Workload } from "../../crds/workload.ts";

/** A workload that waits for its build asks again sooner than this. One that does not is no longer waiting. */
const SILENT_MS = 60_000;

/** The order of waiting builds: earlier requests go first. */
export interface BuildTurns {
  /** Names of Jobs that are being created now. */
  readonly beingMade: Set<string>;
  /** Notes that a workload asks for its turn. */
  asks(workload: Workload): void;
  /** Whether a queued workload still waits for its turn. */
  waits(workload: Workload): boolean;
}

/**
 * Only workloads that asked lately count as waiting. Otherwise a workload that is refused, or whose reconcile always
 * fails, would block all others.
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
      // Workloads that waited under the previous leader may not have asked this one yet.
      const last = asked.get(workload.metadata.uid ?? "") ?? since;
      return isQueued(workload) && clock.now() - last <= SILENT_MS;
    },
  };
}

/** Whether a workload's status says that its build waits for its turn. */
export function isQueued({ metadata, status }: Workload): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase !== "Error" && status?.build?.reason === "Queued";
}
