import type { AdapterContext, StartAdapter } from "../adapter.ts";
import type { DeliverySink } from "../delivery-log.ts";
import type { GatewayMetrics } from "../gateway-metrics.ts";
import type { TriggerEvents } from "../triggers/trigger-status.ts";
import { createSharedState } from "./cron-state.ts";
import { createOccurrences } from "./occurrences.ts";
import { createSchedules, type Schedule } from "./schedules.ts";
import type { Timers } from "./timers.ts";

/** Shared by all cron triggers. */
export interface CronServices {
  readonly timers: Timers;
  readonly metrics: Pick<GatewayMetrics, "count">;
  readonly deliveryLog: DeliverySink;
  readonly events: TriggerEvents;
  /** Unique to this process. */
  readonly instance: string;
  /** An occurrence may be taken over when its process has written no heartbeat for this long. */
  readonly leaseMs: number;
  /** Aborted when everything in flight must end. */
  readonly hardStop: AbortSignal;
}

const CATCH_UP_SECONDS = 60;
/** A smaller delay counts as on time, since the machine may be busy. */
const IN_TIME_MS = 5000;
/** How many missed occurrences are caught up: the last ones. */
const MOST_CAUGHT_UP = 16;

/**
 * Makes the adapter of cron triggers: five fields in a time zone, once per occurrence whatever the number of replicas.
 */
export function createCronStart(services: CronServices): StartAdapter {
  const open = createSchedules();
  let count = 0;
  return async (context) => {
    const { schedule: pattern, timezone = "UTC", catchUpSeconds = CATCH_UP_SECONDS } = context.trigger.spec.config;
    if (pattern === undefined) throw new Error("spec.config.schedule: required for a cron trigger");
    const schedule = open(pattern, timezone);
    count += 1;
    const me = `${services.instance}-${count}`;
    const lateLimitMs = Math.max(IN_TIME_MS, catchUpSeconds * 1000);
    try {
      const state = createSharedState(context);
      const key = `${pattern} ${timezone}`;
      const occurrences = createOccurrences({
        ...services,
        context,
        state,
        me,
        schedule: key,
        catchUpMs: catchUpSeconds * 1000,
        lateLimitMs,
      });
      const since = await ensureSchedule(key, state, context);
      return { done: follow({ schedule, since, occurrences, context, services, lateLimitMs }).finally(schedule.close) };
    } catch (error) {
      schedule.close();
      throw error;
    }
  };
}

/**
 * Writes this schedule into the state: occurrences that an earlier schedule missed do not count.
 *
 * @returns the time after which occurrences must still be run
 */
async function ensureSchedule(
  schedule: string,
  state: ReturnType<typeof createSharedState>,
  { clock, trigger }: AdapterContext,
): Promise<number> {
  let from = 0;
  await state.update((found) => {
    if (found?.schedule === schedule) {
      from = Math.max(Date.parse(found.since), Date.parse(found.last ?? found.since));
      return undefined;
    }
    const now = new Date(clock.now()).toISOString();
    const since = found === undefined ? (trigger.metadata.creationTimestamp ?? now) : now;
    from = Math.max(Date.parse(since), Date.parse(found?.last ?? since));
    return { ...found, schedule, since, running: found?.running ?? {} };
  });
  return from;
}

/** Fires occurrences as they become due, until the adapter is stopped. */
async function follow(options: {
  schedule: Schedule;
  since: number;
  occurrences: ReturnType<typeof createOccurrences>;
  context: AdapterContext;
  services: CronServices;
  lateLimitMs: number;
}): Promise<void> {
  const { schedule, occurrences, context, services, lateLimitMs } = options;
  const { clock, signal } = context;
  // Never decreases, so that no occurrence fires twice if the clock is set back.
  let checkedUntil = options.since;
  let cancel: () => void = () => undefined;

  function fireDue(): void {
    const now = clock.now();
    const after = Math.max(checkedUntil, now - lateLimitMs);
    for (const time of schedule.between({ after, until: now, most: MOST_CAUGHT_UP })) occurrences.fire(time);
    checkedUntil = Math.max(checkedUntil, now);
    const next = schedule.next(checkedUntil);
    if (next !== undefined) cancel = services.timers.at(next, fireDue);
  }

  fireDue();
  await occurrences.untilStopped(signal);
  cancel();
  await occurrences.finished();
}
