import { CallError } from "../api/call.ts";

/** What a page shows of a watch. */
export type WatchState =
  | { readonly is: "connecting" }
  | { readonly is: "live" }
  /** Connects again by itself, except after a 401 response. */
  | { readonly is: "lost" }
  /** Does not connect again by itself. */
  | { readonly is: "refused"; readonly message: string };

/** An event of a watch, as docs/how-to/work-in-an-instance.md has them. */
export interface WatchEvent {
  readonly type: string;
  /** Of the last event, `ended`. */
  readonly message?: string;
}

export interface WatchOptions {
  /**
   * Begins a watch. What has come is yielded together; an empty list is a sign of life.
   *
   * @throws CallError if it is refused, or the edge cannot be reached
   */
  open(signal: AbortSignal): AsyncIterable<readonly WatchEvent[]>;
  /** Called when a list of the folder that was read before may be out of date. */
  onChange(): void;
  onState(state: WatchState): void;
  readonly clock: { now(): number; after(ms: number, act: () => void): () => void };
}

export interface FolderWatch {
  /** Connects now if there is no watch. */
  retry(): void;
  close(): void;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** The edge sends something each 15 s. */
const SILENCE_MS = 40_000;

/** Watches a folder, and connects again with a growing pause after a lost connection. */
export function followFolder(options: WatchOptions): FolderWatch {
  const { clock } = options;
  let current: AbortController | undefined;
  let pauseMs = FIRST_PAUSE_MS;
  let cancelTimer = (): void => undefined;

  async function connect(): Promise<void> {
    cancelTimer();
    const mine = new AbortController();
    current = mine;
    let liveAt: number | undefined;

    /** @param retryMs undefined does not connect again */
    function end(state: WatchState, retryMs?: number): void {
      if (current !== mine) return;
      current = undefined;
      mine.abort();
      cancelTimer();
      options.onState(state);
      if (retryMs !== undefined) cancelTimer = clock.after(retryMs, () => void connect());
    }

    /** A connection that breaks soon does not shorten the pause. */
    function lose(leastMs = 0): void {
      if (liveAt !== undefined && clock.now() - liveAt >= LONGEST_PAUSE_MS) pauseMs = FIRST_PAUSE_MS;
      const retryMs = Math.max(leastMs, pauseMs);
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      end({ is: "lost" }, retryMs);
    }

    function hear(): void {
      cancelTimer();
      cancelTimer = clock.after(SILENCE_MS, lose);
    }

    hear();
    try {
      for await (const events of options.open(mine.signal)) {
        if (current !== mine) return;
        hear();
        if (events.length > 0) options.onChange();
        for (const { type, message = "" } of events) {
          if (type === "ended") return end({ is: "refused", message });
          if (type !== "watching") continue;
          liveAt = clock.now();
          options.onState({ is: "live" });
        }
      }
      lose();
    } catch (error) {
      const { status, retryAfterMs } = error instanceof CallError ? error : { status: 0, retryAfterMs: 0 };
      if (status === 401) end({ is: "lost" });
      else if (isPassing(status)) lose(retryAfterMs);
      else end({ is: "refused", message: (error as Error).message });
    }
  }

  void connect();
  return {
    retry() {
      if (current !== undefined) return;
      pauseMs = FIRST_PAUSE_MS;
      void connect();
    },
    close() {
      cancelTimer();
      current?.abort();
      current = undefined;
    },
  };
}

/** Whether a request that failed with this status may succeed later. */
export function isPassing(status: number): boolean {
  return status === 0 || status === 429 || status >= 500;
}
