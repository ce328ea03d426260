import { isNotFound } from "../../../crds/client/api-error.ts";
import { createBackoff } from "../../../crds/client/backoff.ts";
import { describeError } from "../../../crds/describe-error.ts";
import { onAbort, sleep } from "../../../crds/waits.ts";
import type { AdapterContext } from "../adapter.ts";
import type { GatewayMetrics } from "../gateway-metrics.ts";
import type { TriggerEvents } from "../triggers/trigger-events.ts";
import type { CronState, RunningOccurrence, SharedState } from "./cron-state.ts";

/** A cron trigger's occurrences: each is taken by one replica, and run. */
export interface Occurrences {
  /** An occurrence has come; somebody else may have it already. */
  fire(time: number): void;
  untilStopped(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing of it runs any longer. */
  finished(): Promise<void>;
}

/** Occurrences of one trigger that may run at once; a further one waits, within the time that it may be late. */
const MOST_RUNNING = 16;
/** Times that an occurrence of another is seen without a new sign of life, half a lease apart, until it is taken over. */
const SIGHTINGS = 3;

/**
 * Makes the runner of a trigger's occurrences.
 *
 * An occurrence is written into the trigger's state before it runs, on the condition that nobody else wrote there, and taken out when it is
 * done; in between, its process writes signs of life. One whose process died is run again by another, with the same payload id, if it
 * showed life less than `catchUpSeconds` ago (docs/decisions/cron.md#an-occurrence-whose-process-died-is-run-again).
 */
export function createOccurrences(options: {
  context: AdapterContext;
  state: SharedState;
  /** Unique to this adapter. */
  me: string;
  /** What the state says of the pattern and time zone that these are occurrences of. */
  schedule: string;
  /** How long an occurrence without a process may be run again. */
  catchUpMs: number;
  /** How late an occurrence may be taken. */
  lateLimitMs: number;
  leaseMs: number;
  metrics: Pick<GatewayMetrics, "count">;
  events: TriggerEvents;
  /** Aborted when what is still in flight must end. */
  hardStop: AbortSignal;
}): Occurrences {
  const { context, state, me, schedule, catchUpMs, lateLimitMs, leaseMs, metrics, events, hardStop } = options;
  const { clock, log, signal, trigger } = context;
  const name = trigger.metadata.name;
  /** What runs here, by its time. */
  const mine = new Map<string, AbortController>();
  const work = new Set<Promise<void>>();
  let taking: Promise<void> = Promise.resolve();
  let cancelBeat: (() => void) | undefined;
  let tending = false;

  function background(task: Promise<void>): void {
    const tracked = task
      .catch((error: unknown) => {
        if (!signal.aborted && !hardStop.aborted) log.error({ error: describeError(error) }, "cron trigger failed");
      })
      .finally(() => work.delete(tracked));
    work.add(tracked);
  }

  /** One after the other, so that none overtakes an earlier one. */
  function fire(time: number): void {
    if (signal.aborted) return;
    const next = (): Promise<void> => take(time);
    taking = taking.then(next, next);
    background(taking);
  }

  async function take(time: number): Promise<void> {
    const key = new Date(time).toISOString();
    const backoff = createBackoff({ initialMs: 200, maxMs: 5000 });
    while (!signal.aborted) {
      let isTaken = false;
      try {
        const isMine = await state.update((found) => {
          const present = found ?? { schedule, since: new Date(time - 1).toISOString(), running: {} };
          isTaken = present.schedule !== schedule || Date.parse(present.last ?? present.since) >= time;
          if (isTaken || Object.keys(present.running).length >= MOST_RUNNING) return undefined;
          return { ...present, last: key, running: { ...present.running, [key]: alive() } };
        });
        if (isMine) {
          background(run(key));
          return;
        }
        // Whoever has it may die with it.
        if (isTaken) return tend();
      } catch (error) {
        if (isNotFound(error)) return;
        log.warn({ occurrence: key, error: describeError(error) }, "occurrence not taken, it is tried again");
      }
      const pauseMs = backoff.next();
      if (clock.now() + pauseMs - time >= lateLimitMs) return miss(key);
      if (!(await paused(pauseMs))) return;
    }
  }

  /** @returns whether the pause came to its end, and not the adapter to its own */
  async function paused(ms: number): Promise<boolean> {
    try {
      await sleep(ms, { clock, signal });
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      throw error;
    }
  }

  async function run(key: string): Promise<void> {
    const stop = new AbortController();
    mine.set(key, stop);
    beat();
    let isDone = true;
    try {
      const { payload = {} } = trigger.spec.config;
      const receivedAt = new Date(clock.now()).toISOString();
      await context.run({ id: `${name}-${key}`, fields: {}, data: payload, receivedAt }, { signal: stop.signal });
    } catch (error) {
      // Ended by the edge's stop, for another to run, or because another runs it.
      isDone = !hardStop.aborted && !stop.signal.aborted;
      if (isDone) log.error({ occurrence: key, error: describeError(error) }, "occurrence failed");
    } finally {
      mine.delete(key);
    }
    if (!stop.signal.aborted) await leave(key, isDone);
  }

  /** Takes an occurrence out of the state, or leaves it there for another. */
  async function leave(key: string, isDone: boolean): Promise<void> {
    const backoff = createBackoff({ initialMs: 200, maxMs: leaseMs / 4 });
    for (;;) {
      try {
        await state.update((found) => {
          if (found?.running[key]?.by !== me) return undefined;
          return isDone ? without(found, key) : withRunning(found, key, { ...alive(), by: "" });
        });
        return;
      } catch (error) {
        if (isNotFound(error) || hardStop.aborted) return;
        log.warn(
          { occurrence: key, error: describeError(error) },
          "end of an occurrence not written, it is tried again",
        );
      }
      await sleep(backoff.next(), { clock, signal: hardStop });
    }
  }

  /** Writes signs of life for as long as anything runs here. */
  function beat(): void {
    if (cancelBeat !== undefined) return;
    cancelBeat = clock.after(leaseMs / 4, () => {
      cancelBeat = undefined;
      if (mine.size === 0 || hardStop.aborted) return;
      background(writeBeat().finally(beat));
    });
  }

  async function writeBeat(): Promise<void> {
    try {
      await state.update((found) => {
        if (found === undefined) return undefined;
        const running: Record<string, RunningOccurrence> = { ...found.running };
        let isAny = false;
        for (const [key, stop] of mine) {
          if (running[key]?.by === me) {
            running[key] = alive();
            isAny = true;
          } else {
            log.warn({ occurrence: key }, "another took an occurrence over, it ends here");
            stop.abort(new Error("another process runs the occurrence"));
          }
        }
        return isAny ? { ...found, running } : undefined;
      });
    } catch (error) {
      log.warn({ error: describeError(error) }, "sign of life of an occurrence not written");
    }
  }

  /** Looks after the occurrences of others until none is left. */
  function tend(): void {
    if (tending || signal.aborted) return;
    tending = true;
    background(
      tendOthers().finally(() => {
        tending = false;
      }),
    );
  }

  async function tendOthers(): Promise<void> {
    const sightings = new Map<string, { by: string; beat: string; count: number }>();
    while (!signal.aborted) {
      try {
        const found = await state.read();
        const others = Object.entries(found?.running ?? {}).filter(([key, { by }]) => by !== me || !mine.has(key));
        if (others.length === 0) return;
        for (const [key, { by, beat: beatAt }] of others) {
          const seen = sightings.get(key);
          const count = seen?.by === by && seen.beat === beatAt ? seen.count + 1 : 1;
          sightings.set(key, { by, beat: beatAt, count });
          if (by === "" || count >= SIGHTINGS) await takeOver(key, { by, beat: beatAt });
        }
      } catch (error) {
        if (isNotFound(error)) return;
        // Others may have been hardStop off as well, and must get the time to show their life again.
        sightings.clear();
        log.warn({ error: describeError(error) }, "occurrences of others not seen");
      }
      if (!(await paused(leaseMs / 2))) return;
    }
  }

  async function takeOver(key: string, dead: RunningOccurrence): Promise<void> {
    const isInTime = clock.now() - Date.parse(dead.beat) < catchUpMs;
    const isMine = await state.update((found) => {
      const present = found?.running[key];
      if (found === undefined || present?.by !== dead.by || present.beat !== dead.beat) return undefined;
      return isInTime ? withRunning(found, key, alive()) : without(found, key);
    });
    if (!isMine) return;
    if (!isInTime) return miss(key);
    log.warn({ occurrence: key, from: dead.by }, "occurrence of a process that is gone is run again");
    background(run(key));
  }

  function miss(key: string): void {
    metrics.count("cron", "missed");
    log.warn({ occurrence: key }, "occurrence missed");
    events.record(trigger, {
      type: "Warning",
      reason: "OccurrenceMissed",
      message: "an occurrence could not be fired within config.catchUpSeconds",
    });
  }

  function alive(): RunningOccurrence {
    return { by: me, beat: new Date(clock.now()).toISOString() };
  }

  tend();
  return {
    fire,
    untilStopped: () => new Promise((resolve) => void (signal.aborted ? resolve() : onAbort(signal, resolve))),
    async finished() {
      while (work.size > 0) await Promise.all(work);
      cancelBeat?.();
    },
  };
}

function withRunning(state: CronState, key: string, occurrence: RunningOccurrence): CronState {
  return { ...state, running: { ...state.running, [key]: occurrence } };
}

function without(state: CronState, key: string): CronState {
  const { [key]: _, ...running } = state.running;
  return { ...state, running };
}
