import type { Claim } from "../crds/claim.ts";
import type { Clock } from "../crds/client/clock.ts";
import type { Cluster } from "../crds/client/cluster.ts";
import { claims } from "../crds/kinds.ts";
import { linkSignals, sleep, startDeadline } from "../crds/waits.ts";
import type { Activity } from "./activity.ts";

/** Whether a release of a pod's claim waits for the work in flight there. */
export interface ReleaseHold {
  /**
   * Whether a release saves the changes of such work, as far as the operator waits for it; synchronous if already
   * known. Call it while the work is in flight.
   *
   * @param releasedAt asks as {@link claimReleasedAt} does
   */
  isHeld(releasedAt: ReleasedAt): true | Promise<boolean>;
  /** Whether the claim is being read, or was read so recently that no read is needed. */
  isInUse(): boolean;
  /** Drops the last result, once nothing is in flight any more. */
  reset(): void;
}

type ReleasedAt = (signal: AbortSignal) => Promise<number | undefined>;

export interface ReleaseHoldOptions {
  readonly activity: Pick<Activity, "announceInFlight">;
  /** Independent of the system's clock: otherwise an old read of a claim could seem recent. */
  readonly clock: Clock;
  /** The time of day, in which the start of a release is given. */
  readonly timeOfDay: () => number;
  /** Aborts the requests to the API server. */
  readonly signal: AbortSignal;
}

/**
 * The operator saves files at the earliest 15 s after a release begins, if the pod announces requests in flight. So a
 * response within this time of a read of the claim, or of the start of the release, is saved.
 */
const HELD_MS = 10_000;
const RELEASE_MS = 12_000;
/** How long a response waits for an unreachable API server. */
const ASK_MS = 10_000;
const ASK_AGAIN_MS = 500;

/** The hold of one pod. */
export function createReleaseHold(podName: string, options: ReleaseHoldOptions): ReleaseHold {
  const { activity, clock, timeOfDay } = options;
  /** When the API server was last asked and the claim was not being released. */
  let heldAt = Number.NEGATIVE_INFINITY;
  /** Since when, according to the activity, the pod had then announced requests in flight. */
  let heldSince: number | undefined;
  let asking: Promise<boolean> | undefined;

  /**
   * A release begins at the API server, and the watches of this process and of the operator may show it too late: this
   * process may have been suspended. So the pod first announces that requests may be in flight, and then the claim is
   * read. If it was not being released, a later release finds the announcement, unless there was a gap since.
   */
  async function ask(releasedAt: ReleasedAt): Promise<boolean> {
    const limit = startDeadline(ASK_MS, clock);
    const { signal, close } = linkSignals(limit.signal, options.signal);
    try {
      while (!signal.aborted) {
        const since = await activity.announceInFlight(podName);
        const askedAt = clock.now();
        try {
          if (since !== undefined) {
            const released = await releasedAt(signal);
            if (released !== undefined) return heldSince === since && timeOfDay() < released + RELEASE_MS;
            heldAt = askedAt;
            heldSince = since;
            // Not if this process was suspended during the read.
            if (isRecent()) return true;
          }
        } catch (error) {
          if (signal.aborted) throw error;
        }
        await sleep(ASK_AGAIN_MS, { clock, signal });
      }
    } catch {
      // The time limit has passed, so it is unknown.
    } finally {
      close();
      limit.close();
    }
    return false;
  }

  function isRecent(): boolean {
    const ageMs = clock.now() - heldAt;
    return ageMs >= 0 && ageMs < HELD_MS;
  }

  return {
    isHeld(releasedAt) {
      if (asking === undefined && isRecent()) return true;
      asking ??= ask(releasedAt).finally(() => {
        asking = undefined;
      });
      return asking;
    },
    isInUse: () => asking !== undefined || isRecent(),
    reset() {
      heldAt = Number.NEGATIVE_INFINITY;
      heldSince = undefined;
    },
  };
}

/** The holds of the pods of claims. */
export interface ReleaseHolds {
  /** The hold of the claim's pod. */
  of(claim: Claim): ReleaseHold;
  /** Call this before the pod's announcement of work in flight is removed. */
  forget(claim: Claim): void;
}

/** Keeps the hold of each pod while its last read of the claim is recent. */
export function createReleaseHolds(options: ReleaseHoldOptions): ReleaseHolds {
  const holds = new Map<string, ReleaseHold>();
  return {
    of(claim) {
      const name = claim.status?.instanceId ?? "";
      const key = keyOf(claim);
      const hold = holds.get(key) ?? createReleaseHold(name, options);
      for (const [oldest, { isInUse }] of holds) {
        if (isInUse()) break;
        holds.delete(oldest);
      }
      holds.delete(key);
      holds.set(key, hold);
      return hold;
    },
    forget: (claim) => void holds.delete(keyOf(claim)),
  };

  function keyOf({ metadata, status }: Claim): string {
    return `${metadata.uid}/${status?.instanceId}`;
  }
}

/**
 * When the deletion of a claim began, as the API server reports now: undefined if it has not, negative infinity if the
 * claim is gone.
 *
 * @throws NetworkError, ApiError if the API server cannot be asked
 */
export async function claimReleasedAt(
  { metadata: { name, uid } }: Claim,
  { cluster }: { cluster: Cluster },
  signal: AbortSignal,
): Promise<number | undefined> {
  const present = await cluster(claims).named(name).find({ signal });
  if (present?.metadata.uid !== uid) return Number.NEGATIVE_INFINITY;
  const { deletionTimestamp } = present?.metadata ?? {};
  return deletionTimestamp === undefined ? undefined : Date.parse(deletionTimestamp);
}
