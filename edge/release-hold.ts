import type { Claim } from "../crds/claim.ts";
import type { Clock } from "../crds/client/clock.ts";
import type { Cluster } from "../crds/client/cluster.ts";
import { claims } from "../crds/kinds.ts";
import { linkSignals, sleep, startDeadline } from "../crds/waits.ts";
import type { Activity } from "./activity.ts";

/** Whether a release of a pod's claim waits for the work that is in flight there. */
export interface ReleaseHold {
  /**
   * Whether what such work has changed is in the files that a release saves, as far as the operator waits for it; at
   * once where that is known. To be asked while the work is in flight.
   *
   * @param releasedAt asks as {@link claimReleasedAt} does
   */
  isHeld(releasedAt: ReleasedAt): true | Promise<boolean>;
  /** Whether a look at the claim is under way, or so recent that none is needed. */
  isInUse(): boolean;
  /** Forgets the last look, once nothing is in flight any more. */
  reset(): void;
}

type ReleasedAt = (signal: AbortSignal) => Promise<number | undefined>;

export interface ReleaseHoldOptions {
  readonly activity: Pick<Activity, "announceInFlight">;
  /** One that no setting of the system's clock moves: an old look at a claim would seem recent. */
  readonly clock: Clock;
  /** The time of day, which is what a release's beginning is told in. */
  readonly timeOfDay: () => number;
  /** Ends what is asked of the API server. */
  readonly signal: AbortSignal;
}

/**
 * The operator saves files 15 s after the beginning of a release at the earliest, where a pod says that requests are in
 * flight. What a pod answers within these times of a look at the claim, or of the release's beginning, is saved then.
 */
const HELD_MS = 10_000;
const RELEASE_MS = 12_000;
/** For so long an answer waits for an API server that cannot be asked. */
const ASK_MS = 10_000;
const ASK_AGAIN_MS = 500;

/** The hold of one pod. */
export function createReleaseHold(podName: string, options: ReleaseHoldOptions): ReleaseHold {
  const { activity, clock, timeOfDay } = options;
  /** When the API server was last asked and the claim was not being released. */
  let heldAt = Number.NEGATIVE_INFINITY;
  /** Since when, by the activity's word, the pod had said then that requests are in flight. */
  let heldSince: number | undefined;
  let asking: Promise<boolean> | undefined;

  /**
   * A release begins at the API server, and neither the watches of this process nor those of the operator need to show
   * it in time: this process may have been suspended. So the pod says first that requests may be in flight, and then
   * the claim is read. Where it was not being released, a release that begins later finds what the pod says, unless
   * that had a gap since.
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
            // Not where this process was suspended over the question.
            if (isRecent()) return true;
          }
        } catch (error) {
          if (signal.aborted) throw error;
        }
        await sleep(ASK_AGAIN_MS, { clock, signal });
      }
    } catch {
      // The time is up, so that it cannot be told.
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
  /** That of the pod that the claim has. */
  of(claim: Claim): ReleaseHold;
  /** To be called before the pod says no more that work is in flight there. */
  forget(claim: Claim): void;
}

/** Keeps the hold of each pod for as long as its last look at the claim is recent. */
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
 * When the deletion of a claim began, by the API server's word of this moment: undefined where it has not, negative
 * infinity where the claim is gone.
 *
 * @throws NetworkError, ApiError where it cannot be asked
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
