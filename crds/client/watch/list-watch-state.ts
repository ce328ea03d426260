/**
 * The state of a list-watch, modelled on kube-rs's watcher. `pageSize` 0 requests the whole list in one page: that
 * works if the pages of a list expire before they are all read.
 */
export type ListWatchState =
  | { readonly kind: "empty"; readonly pageSize: number }
  | { readonly kind: "init-page"; readonly pageSize: number; readonly continue: string }
  | { readonly kind: "init-listed"; readonly resourceVersion: string }
  | { readonly kind: "watching"; readonly resourceVersion: string };

/** The outcome of a state's step. */
export type ListWatchOutcome =
  | { readonly kind: "page"; readonly resourceVersion: string; readonly continue: string | undefined }
  | { readonly kind: "page-expired" }
  | { readonly kind: "list-failed" }
  | { readonly kind: "watch-opened" }
  | { readonly kind: "watch-refused" }
  /** `resourceVersion` is the last one seen; `healthy`: the watch lasted for some time. */
  | { readonly kind: "watch-ended"; readonly resourceVersion: string; readonly healthy: boolean }
  /** The server no longer has the changes after the resourceVersion. */
  | { readonly kind: "watch-expired"; readonly healthy: boolean }
  /** The events of the watch cannot be decoded or trusted. */
  | { readonly kind: "watch-broken" };

/** `repeated`: wait only if nothing was healthy since the last time. */
export type Pause = "never" | "repeated" | "always";

export interface ListWatchStep {
  readonly state: ListWatchState;
  readonly pause: Pause;
}

/** The state after an outcome, and whether to wait before acting on it. */
export function nextListWatchState(
  state: ListWatchState,
  outcome: ListWatchOutcome,
  { pageSize }: { pageSize: number },
): ListWatchStep {
  switch (outcome.kind) {
    case "page": {
      const { resourceVersion, continue: token } = outcome;
      if (token === undefined) return { state: { kind: "init-listed", resourceVersion }, pause: "never" };
      const size = "pageSize" in state ? state.pageSize : pageSize;
      return { state: { kind: "init-page", pageSize: size, continue: token }, pause: "never" };
    }
    case "page-expired":
      return { state: { kind: "empty", pageSize: 0 }, pause: "repeated" };
    case "list-failed":
      return { state: { kind: "empty", pageSize }, pause: "always" };
    case "watch-opened":
      return { state: { kind: "watching", resourceVersion: resourceVersionOf(state) }, pause: "never" };
    case "watch-refused":
      return { state: { kind: "init-listed", resourceVersion: resourceVersionOf(state) }, pause: "always" };
    case "watch-ended":
      return {
        state: { kind: "init-listed", resourceVersion: outcome.resourceVersion },
        pause: outcome.healthy ? "never" : "repeated",
      };
    case "watch-expired":
      return { state: { kind: "empty", pageSize }, pause: outcome.healthy ? "never" : "repeated" };
    case "watch-broken":
      return { state: { kind: "empty", pageSize }, pause: "always" };
    default:
      return outcome satisfies never;
  }
}

function resourceVersionOf(state: ListWatchState): string {
  if (state.kind === "init-listed" || state.kind === "watching") return state.resourceVersion;
  throw new Error(`Cannot watch in the state ${state.kind}: no list was completed`);
}
