import * as v from "valibot";
import { isConflict } from "../../../crds/client/api-error.ts";
import type { AdapterContext } from "../adapter.ts";

/** A running occurrence. */
export interface RunningOccurrence {
  /** The adapter that runs it; empty if it was released for another one. */
  readonly by: string;
  /** ISO 8601 time of its last heartbeat. */
  readonly beat: string;
}

/** The state of a cron trigger, stored in its status; times are ISO 8601. */
export interface CronState {
  /** Pattern and time zone that the state applies to. */
  readonly schedule: string;
  /** Occurrences up to this time belong to an earlier schedule. */
  readonly since: string;
  /** The last occurrence that was taken. */
  readonly last?: string | undefined;
  /** Occurrences that were taken and have not finished, by time. */
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

/** Reads a cron trigger's state; undefined if there is none, or it belongs to another type of adapter. */
function readCronState(state: unknown): CronState | undefined {
  const checked = v.safeParse(schema, state);
  return checked.success ? checked.output : undefined;
}

/** A cron trigger's state, shared by all replicas. */
export interface SharedState {
  /** Reads it from the API server. @throws ApiError, NetworkError */
  read(): Promise<CronState | undefined>;
  /**
   * Changes it without losing a concurrent change: `change` is called again with what another replica has written.
   *
   * @param change makes the new state, or undefined to write nothing
   * @returns whether it was written
   * @throws ApiError, NetworkError
   */
  update(change: (state: CronState | undefined) => CronState | undefined): Promise<boolean>;
}

const MAX_TRIES = 20;

/** Opens the state; changes of one process run one after the other. */
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
      // The known state may be stale; the write then fails with a conflict.
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
