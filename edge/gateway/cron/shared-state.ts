import { isConflict } from "../../../crds/client/api-error.ts";
import type { AdapterContext } from "../adapter.ts";
import { type CronState, readCronState } from "./cron-state.ts";

/** A cron trigger's state, which every replica reads and writes. */
export interface SharedState {
  /** Reads it from the API server. @throws ApiError, NetworkError */
  read(): Promise<CronState | undefined>;
  /**
   * Changes it so that no other change is lost; `change` is called again with what another has written meanwhile.
   *
   * @param change makes the new state, or undefined where nothing is to be written
   * @returns whether it was written
   * @throws ApiError, NetworkError
   */
  update(change: (state: CronState | undefined) => CronState | undefined): Promise<boolean>;
}

const MAX_TRIES = 20;

/** Opens the state; changes of one process are made one after the other. */
export function createSharedState({
  readState,
  writeState,
}: Pick<AdapterContext, "readState" | "writeState">): SharedState {
  let known: { readonly state: CronState | undefined } | undefined;
  let last: Promise<unknown> = Promise.resolve();

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = last.then(work, work);
    last = turn;
    return turn;
  }

  async function read(): Promise<CronState | undefined> {
    known = undefined;
    const state = readCronState(await readState());
    known = { state };
    return state;
  }

  async function update(change: Parameters<SharedState["update"]>[0]): Promise<boolean> {
    for (let tries = 1; ; tries += 1) {
      // What is known may be old; the write says so then.
      const state = known === undefined ? await read() : known.state;
      const changed = change(state);
      if (changed === undefined) return false;
      try {
        await writeState({ ...changed });
        known = { state: changed };
        return true;
      } catch (error) {
        known = undefined;
        if (!isConflict(error) || tries === MAX_TRIES) throw error;
      }
    }
  }

  return { read: () => inTurn(read), update: (change) => inTurn(() => update(change)) };
}
