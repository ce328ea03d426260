import * as v from "valibot";
import { isConflict } from "../../../crds/client/api-error.ts";
import type { AdapterContext } from "../adapter.ts";

/** An occurrence that is run. */
export interface RunningOccurrence {
  /** The adapter that runs it; empty: it was released for another to run. */
  readonly by: string;
  /** ISO 8601 time of its last heartbeat. */
  readonly beat: string;
}

/** What a cron trigger's status remembers; times are ISO 8601. */
export interface CronState {
  /** Pattern and time zone that the rest is about. */
  readonly schedule: string;
  /** Occurrences up to this time belong to an earlier schedule. */
  readonly since: string;
  /** The last occurrence that was taken. */
  readonly last?: string | undefined;
  /** Occurrences that were taken and are not done, by their times. */
  readonly running: Readonly<Record<string, RunningOccurrence>>;
}

const time = v.pipe(
  v.string(),
  v.check((text) => !Number.isNaN(Date.parse(text))),
);
const schema = v.object({
  schedule: v.string(),
  since: time,
  last: v.optional(time),
  running: v.optional(v.record(time, v.object({ by: v.string(), beat: time })), {}),
});

/** Reads a cron trigger's state; undefined where there is none, or another adapter's. */
function readCronState(state: unknown): CronState | undefined {
  const checked = v.safeParse(schema, state);
  return checked.success ? checked.output : undefined;
}

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

  function serially<T>(work: () => Promise<T>): Promise<T> {
    const next = last.then(work, work);
    last = next;
    return next;
  }

  async function read(): Promise<CronState | undefined> {
    known = undefined;
    const state = readCronState(await readState());
    known = { state };
    return state;
  }

  async function update(change: Parameters<SharedState["update"]>[0]): Promise<boolean> {
    for (let tries = 1; ; tries += 1) {
      // What is known may be stale; the write then fails with a conflict.
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

  return { read: () => serially(read), update: (change) => serially(() => update(change)) };
}
