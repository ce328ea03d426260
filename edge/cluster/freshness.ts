import type { Clock } from "../../crds/client/clock.ts";
import type { ListWatchState } from "../../crds/client/watch/list-watch-state.ts";
import { sleep } from "../../crds/waits.ts";
import { HttpError } from "../http/http-error.ts";

/** @throws HttpError 503 while a cache may be stale: at the start, and while the cluster cannot be reached */
export function requireFresh(...kinds: readonly { isFresh(): boolean }[]): void {
  if (kinds.every((kind) => kind.isFresh())) return;
  throw new HttpError(
    503,
    "the cache of the cluster is not current (starting up, or the cluster cannot be reached); try again shortly",
    {
      headers: { "retry-after": "1" },
    },
  );
}

/** For 5 s in all: a busy API server takes seconds to list again what a watch has lost. */
const [LOOKS, LOOK_AGAIN_MS] = [100, 50];

/**
 * Waits until the caches are fresh: a watch that is behind for some seconds refuses no call.
 *
 * @throws HttpError as {@link requireFresh} does if one is still stale after 5 s, or once a signal is aborted
 */
export async function untilFresh(
  kinds: readonly { isFresh(): boolean }[],
  { clock, signals }: { clock: Clock; signals: readonly (AbortSignal | undefined)[] },
): Promise<void> {
  for (let look = 0; look < LOOKS && !kinds.every((kind) => kind.isFresh()); look++) {
    if (signals.some((signal) => signal?.aborted)) break;
    await sleep(LOOK_AGAIN_MS, { clock });
  }
  requireFresh(...kinds);
}

/** Whether the cache of a list-watch holds what the cluster holds now. */
export interface Freshness {
  /** Receives the state of the list-watch. */
  onState(state: Pick<ListWatchState, "kind">): void;
  isFresh(): boolean;
}

/** A watch ends every two minutes and reopens within milliseconds, or after a first backoff of at most 0.8 s. */
const GAP_MS = 2000;

/** Follows a list-watch: fresh from its first watch, and for two seconds between two watches. */
export function createFreshness(clock: Clock): Freshness {
  let watching = false;
  let leftAt = Number.NEGATIVE_INFINITY;
  return {
    onState({ kind }) {
      if (watching && kind !== "watching") leftAt = clock.now();
      watching = kind === "watching";
    },
    isFresh: () => watching || clock.now() - leftAt < GAP_MS,
  };
}
