import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { createBackoff } from "../../../crds/client/backoff.ts";
import { createDeferred, type Deferred } from "../../../crds/client/deferred.ts";
import { sleep } from "../../../crds/client/sleep.ts";
import type { AdapterContext } from "../adapter.ts";
import type { SavedState } from "./saved-state.ts";

/** How many conflicts with writes of others to the same object are tried again without a wait. */
const AT_ONCE = 5;

/** Another session has written the state since: this one must not send or write anything more. */
export class SupersededError extends Error {
  override readonly name = "SupersededError";
}

/** Writes the state, one write at a time; what comes meanwhile shares the next one. */
export interface StateWriter {
  /** Offset that the last finished write holds. */
  readonly written: number | undefined;
  /** Whether the trigger was deleted, so that nothing can be written any more. */
  readonly gone: boolean;
  /**
   * Resolves when the state as it is now is written, with the time at which that write began, in milliseconds since the epoch.
   *
   * @throws SupersededError, or the signal's reason
   */
  commit(): Promise<number>;
}

/**
 * @param options.signal ends the writer, and fails what waits for it
 * @param options.onLost called once when another session has taken over
 */
export function createStateWriter(options: {
  context: Pick<AdapterContext, "readState" | "writeState" | "clock" | "log">;
  save: () => SavedState;
  signal: AbortSignal;
  random: () => number;
  onLost: (error: SupersededError) => void;
}): StateWriter {
  const { context, save, signal, random, onLost } = options;
  let waiting: Deferred<number>[] = [];
  let writing = false;
  let written: number | undefined;
  let gone = false;
  let lost: SupersededError | undefined;

  async function writeAll(): Promise<void> {
    writing = true;
    while (waiting.length > 0) {
      const served = waiting;
      waiting = [];
      try {
        const began = await write();
        for (const { resolve } of served) resolve(began);
      } catch (error) {
        if (error instanceof SupersededError && lost === undefined) {
          lost = error;
          onLost(error);
        }
        for (const { reject } of [...served, ...waiting]) reject(error);
        waiting = [];
      }
    }
    writing = false;
  }

  async function write(): Promise<number> {
    const backoff = createBackoff({ initialMs: 200, maxMs: 10_000, random });
    for (let tries = 1; ; tries++) {
      signal.throwIfAborted();
      const began = context.clock.now();
      const state = save();
      try {
        await context.writeState({ ...state });
        written = state.offset;
        return began;
      } catch (error) {
        signal.throwIfAborted();
        if (isNotFound(error)) {
          gone = true;
          throw new SupersededError("the trigger was deleted, and its state with it");
        }
        if (!isConflict(error)) context.log.warn({ error }, "cannot write the messenger's state, trying again");
        else if ((await isMine(state.holder)) && tries <= AT_ONCE) continue;
        await sleep(backoff.next(), { clock: context.clock, signal });
      }
    }
  }

  /** Whether the conflict is with a write that left the state alone. Reading also renews the condition of the next write. */
  async function isMine(holder: string): Promise<boolean> {
    let state: Record<string, unknown>;
    try {
      state = await context.readState();
    } catch (error) {
      signal.throwIfAborted();
      context.log.warn({ error }, "cannot read the messenger's state, trying again");
      return false;
    }
    if (state.holder !== holder) throw new SupersededError("another poller of this bot has taken over");
    return true;
  }

  return {
    get written() {
      return written;
    },
    get gone() {
      return gone;
    },
    commit() {
      if (lost !== undefined) return Promise.reject(lost);
      if (signal.aborted) return Promise.reject(signal.reason);
      const commit = createDeferred<number>();
      waiting.push(commit);
      if (!writing) void writeAll();
      return commit.promise;
    },
  };
}
