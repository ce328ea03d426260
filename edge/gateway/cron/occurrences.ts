import { isNotFound } from "../../../crds/client/api-error.ts";
import { createBackoff } from "../../../crds/client/backoff.ts";
import { describeError } from "../../../crds/describe-error.ts";
import { onAbort, sleep } from "../../../crds/waits.ts";
import type { AdapterContext } from "../adapter.ts";
import type { DeliverySink } from "../delivery-log.ts";
import type { GatewayMetrics } from "../gateway-metrics.ts";
import type { TriggerEvents } from "../triggers/trigger-status.ts";
import type { CronState, RunningOccurrence, SharedState } from "./cron-state.ts";

/** Runs a cron trigger's occurrences; one replica takes each. */
export interface Occurrences {
  /** An occurrence is due; another replica may have taken it already. */
  fire(time: number): void;
  untilStopped(signal: AbortSignal): Promise<void>;
  /** Resolves when all started occurrences have ended. */
  finished(): Promise<void>;
}

/** Occurrences of one trigger that may run concurrently; another one waits, within its allowed delay. */
const MOST_RUNNING = 16;
/** The replica that took the last occurrence gets this long to take the next one before the others try. */
const HEAD_START_MS = 250;
/** Checks, half a lease apart, without a new heartbeat before an occurrence is taken over. */
const MISSED_HEARTBEATS = 3;

/**
 * Makes the runner of a trigger's occurrences.
 *
 * An occurrence is written into the trigger's state before it runs, with the precondition that no other process has
 * written there, and removed when it is done. In between, its process writes heartbeats. If the process dies, another
 * one runs the occurrence again with the same payload id, provided that the last heartbeat is less than
 * `catchUpSeconds` old (docs/decisions/cron.md#an-occurrence-whose-process-died-is-run-again).
 */
export function createOccurrences(options: {
  context: AdapterContext;
  state: SharedState;
  /** Unique to this adapter. */
  me: string;
  /** The pattern and time zone of these occurrences, as stored in the state. */
  schedule: string;
  /** How long an occurrence without a process may still be run again. */
  catchUpMs: number;
  /** Maximum delay of an occurrence. */
  lateLimitMs: number;
  leaseMs: number;
  metrics: Pick<GatewayMetrics, "count">;
  deliveryLog: DeliverySink;
  events: TriggerEvents;
  /** Aborted when everything in flight must end. */
  hardStop: AbortSignal;
}): Occurrences {
  const { context, state, me, schedule, catchUpMs, lateLimitMs, leaseMs, hardStop } = options;
  const { metrics, events, deliveryLog } = options;
  const { clock, log, signal, trigger } = context;
  const name = trigger.metadata.name;
  /** Occurrences running in this process, by time. */
  const mine = new Map<string, AbortController>();
  const work = new Set<Promise<void>>();
  let taking: Promise<void> = Promise.resolve();
  let cancelHeartbeat: (() => void) | undefined;
  let watching = false;
  /** Whether another replica took the last occurrence and is expected to take the next. */
  let isOthers = false;

  function background(task: Promise<void>): void {
    const tracked = task
      .catch((error: unknown) => {
        if (!signal.aborted && !hardStop.aborted) log.error({ error: describeError(error) }, "cron trigger failed");
      })
      .finally(() => work.delete(tracked));
    work.add(tracked);
  }

  /** Takes occurrences one after the other, so that none overtakes an earlier one. */
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
        // If all replicas write at once, all but one of the writes fail.
        if (isOthers) {
          if (!(await paused(HEAD_START_MS))) return;
          await state.read();
        }
        const isMine = await state.update((found) => {
          const present = found ?? { schedule, since: new Date(time - 1).toISOString(), running: {} };
          isTaken = present.schedule !== schedule || Date.parse(present.last ?? present.since) >= time;
          if (isTaken || Object.keys(present.running).length >= MOST_RUNNING) return undefined;
          return { ...present, last: key, running: { ...present.running, [key]: heartbeat() } };
        });
        isOthers = isTaken;
        if (isMine) {
          background(run(key));
          return;
        }
        // The process that took it may die.
        if (isTaken) return watch();
      } catch (error) {
        if (isNotFound(error)) return;
        log.warn({ occurrence: key, error: describeError(error) }, "occurrence not taken, retrying");
      }
      const pauseMs = backoff.next();
      if (clock.now() + pauseMs - time >= lateLimitMs) return miss(key);
      if (!(await paused(pauseMs))) return;
    }
  }

  /** @returns false if the adapter was stopped during the pause */
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
    scheduleHeartbeat();
    let isDone = true;
    try {
      const { payload = {} } = trigger.spec.config;
      const receivedAt = new Date(clock.now()).toISOString();
      await context.run({ id: `${name}-${key}`, fields: {}, data: payload, receivedAt }, { signal: stop.signal });
    } catch (error) {
      // Aborted because the edge stops, so that another process runs it, or because another has taken it over.
      isDone = !hardStop.aborted && !stop.signal.aborted;
      if (isDone) log.error({ occurrence: key, error: describeError(error) }, "occurrence failed");
    } finally {
      mine.delete(key);
    }
    if (!stop.signal.aborted) await finish(key, isDone);
  }

  /** Removes an occurrence from the state, or releases it for another process. */
  async function finish(key: string, isDone: boolean): Promise<void> {
    const backoff = createBackoff({ initialMs: 200, maxMs: leaseMs / 4 });
    for (;;) {
      try {
        await state.update((found) => {
          if (found?.running[key]?.by !== me) return undefined;
          return isDone ? without(found, key) : withRunning(found, key, { ...heartbeat(), by: "" });
        });
        return;
      } catch (error) {
        if (isNotFound(error) || hardStop.aborted) return;
        log.warn({ occurrence: key, error: describeError(error) }, "end of occurrence not written, retrying");
      }
      await sleep(backoff.next(), { clock, signal: hardStop });
    }
  }

  /** Writes heartbeats while an occurrence runs here. */
  function scheduleHeartbeat(): void {
    if (cancelHeartbeat !== undefined) return;
    cancelHeartbeat = clock.after(leaseMs / 4, () => {
      cancelHeartbeat = undefined;
      if (mine.size === 0 || hardStop.aborted) return;
      background(writeHeartbeats().finally(scheduleHeartbeat));
    });
  }

  async function writeHeartbeats(): Promise<void> {
    try {
      await state.update((found) => {
        if (found === undefined) return undefined;
        const running: Record<string, RunningOccurrence> = { ...found.running };
        let isAny = false;
        for (const [key, stop] of mine) {
          if (running[key]?.by === me) {
            running[key] = heartbeat();
            isAny = true;
          } else {
            log.warn({ occurrence: key }, "occurrence taken over by another process");
            stop.abort(new Error("another process runs the occurrence"));
          }
        }
        return isAny ? { ...found, running } : undefined;
      });
    } catch (error) {
      log.warn({ error: describeError(error) }, "occurrence heartbeat not written");
    }
  }

  /** Watches the occurrences of other processes until none is left. */
  function watch(): void {
    if (watching || signal.aborted) return;
    watching = true;
    background(
      watchOthers().finally(() => {
        watching = false;
      }),
    );
  }

  async function watchOthers(): Promise<void> {
    const seen = new Map<string, { by: string; beat: string; count: number }>();
    while (!signal.aborted) {
      try {
        const found = await state.read();
        const others = Object.entries(found?.running ?? {}).filter(([key, { by }]) => by !== me || !mine.has(key));
        if (others.length === 0) return;
        for (const [key, { by, beat: beatAt }] of others) {
          const before = seen.get(key);
          const count = before?.by === by && before.beat === beatAt ? before.count + 1 : 1;
          seen.set(key, { by, beat: beatAt, count });
          if (by === "" || count >= MISSED_HEARTBEATS) await takeOver(key, { by, beat: beatAt });
        }
      } catch (error) {
        if (isNotFound(error)) return;
        // Other processes may have been disconnected as well, and need time for new heartbeats.
        seen.clear();
        log.warn({ error: describeError(error) }, "cron state not read");
      }
      if (!(await paused(leaseMs / 2))) return;
    }
  }

  async function takeOver(key: string, dead: RunningOccurrence): Promise<void> {
    const isInTime = clock.now() - Date.parse(dead.beat) < catchUpMs;
    const isMine = await state.update((found) => {
      const present = found?.running[key];
      if (found === undefined || present?.by !== dead.by || present.beat !== dead.beat) return undefined;
      return isInTime ? withRunning(found, key, heartbeat()) : without(found, key);
    });
    if (!isMine) return;
    if (!isInTime) return miss(key);
    log.warn({ occurrence: key, from: dead.by }, "occurrence taken over");
    background(run(key));
  }

  function miss(key: string): void {
    metrics.count("cron", "missed");
    const at = new Date(clock.now()).toISOString();
    const reason = "no replica could fire it within config.catchUpSeconds";
    deliveryLog.add(trigger, { id: `${name}-${key}`, at, result: "missed", ms: 0, reason });
    log.warn({ occurrence: key }, "occurrence missed");
    events.record(trigger, {
      type: "Warning",
      reason: "OccurrenceMissed",
      message: "an occurrence could not be fired within config.catchUpSeconds",
    });
  }

  function heartbeat(): RunningOccurrence {
    return { by: me, beat: new Date(clock.now()).toISOString() };
  }

  watch();
  return {
    fire,
    untilStopped: () => new Promise((resolve) => void (signal.aborted ? resolve() : onAbort(signal, resolve))),
    async finished() {
      while (work.size > 0) await Promise.all(work);
      cancelHeartbeat?.();
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
