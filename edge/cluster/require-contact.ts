import type { Clock } from "../../crds/client/clock.ts";
import type { ListWatchState } from "../../crds/client/list-watch-state.ts";
import { HttpError } from "../http/http-error.ts";

/** @throws HttpError 503 where what the watches know may be old: at the start, and while the cluster is out of reach */
export function requireContact(...kinds: readonly { inContact(): boolean }[]): void {
  if (kinds.every((kind) => kind.inContact())) return;
  throw new HttpError(503, "no current view of the cluster (starting up, or it cannot be reached); try again shortly", {
    headers: { "retry-after": "1" },
  });
}

/** Whether a list-watch shows what the cluster holds now. */
export interface WatchContact {
  /** Takes note of where the list-watch stands. */
  onState(state: Pick<ListWatchState, "kind">): void;
  inContact(): boolean;
}

/** A watch ends every two minutes and is open again within milliseconds, or after a first back-off of at most 0.8 s. */
const GAP_MS = 2000;

/** Follows a list-watch: in contact from its first watch on, and for two seconds between one watch and the next. */
export function createWatchContact(clock: Clock): WatchContact {
  let watching = false;
  let leftAt = Number.NEGATIVE_INFINITY;
  return {
    onState({ kind }) {
      if (watching && kind !== "watching") leftAt = clock.now();
      watching = kind === "watching";
    },
    inContact: () => watching || clock.now() - leftAt < GAP_MS,
  };
}
