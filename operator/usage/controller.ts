import { createBackoff } from "../../crds/client/backoff.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { claims } from "../../crds/kinds.ts";
import { HOUR_MS, hourAt, hourStart, hoursBetween, type UsageHour } from "../../crds/usage/usage-hour.ts";
import type { ClaimContext } from "../claim/context.ts";
import type { Controller } from "../controller.ts";

/** A new leader has more urgent work first. */
const FIRST_MS = 30_000;
/** A new leader merges what leaders before it have left. */
const FIRST_MERGED_HOURS = 24;

/** Until a merge that failed is tried again: each reads an hour's records. */
const MERGE_BACKOFF = { initialMs: 600_000, maxMs: 24 * HOUR_MS };

/** Records that are too old are deleted this often. */
const DROP_MS = 24 * HOUR_MS;

/**
 * Records each hour of the sessions that go on after it, merges the batches of the hour before that, and deletes old
 * records.
 */
export function createUsageController(context: ClaimContext): Controller<"usage"> {
  const { cluster, config, log, usage } = context;
  // A claim may have become Active under an earlier leader, whose last write arrives this late.
  const delayMs = config.leaseMs + 5000;
  let mergedUntil: UsageHour | undefined;
  const backoff = createBackoff(MERGE_BACKOFF);
  let mergeAtMs = 0;
  let dropAtMs = 0;

  async function merge(until: UsageHour, signal: AbortSignal): Promise<void> {
    if (systemClock.now() < mergeAtMs) return;
    mergeAtMs = 0;
    for (const hour of hoursBetween(mergedUntil ?? before(until, FIRST_MERGED_HOURS), until)) {
      try {
        await usage.mergeBatches(hour, signal);
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ error, hour }, "cannot merge usage records, trying again later");
        mergeAtMs = systemClock.now() + backoff.next();
        return;
      }
      mergedUntil = before(hour, -1);
      backoff.reset();
    }
  }

  /** Deletes old records, once those of the last hours are merged. */
  async function drop(signal: AbortSignal): Promise<void> {
    const now = systemClock.now();
    if (config.usageTtlMs === undefined || mergedUntil === undefined || now < dropAtMs) return;
    dropAtMs = now + DROP_MS;
    // A wrong clock must not delete records.
    const hour = hourAt(Math.min(now, context.serverNow()) - config.usageTtlMs);
    try {
      const hours = await usage.dropBefore(hour, signal);
      if (hours.length > 0)
        log.info({ hours: hours.length, from: hours[0], to: hours.at(-1) }, "old usage records deleted");
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ error, hour }, "cannot delete old usage records, trying again tomorrow");
    }
  }

  return {
    name: "usage",
    priority: 3,
    concurrency: 1,
    initial: usage.isOn ? [{ key: "hours", afterMs: FIRST_MS }] : [],
    watches: [],
    async reconcile(_key, { signal }) {
      const hour = hourAt(systemClock.now() - delayMs);
      await usage.recordHours(hour, { list: async () => (await cluster(claims).list({ signal })).items, signal });
      await merge(before(hour, 1), signal);
      await drop(signal);
      const nextMs = Math.min(hourStart(hour) + HOUR_MS + delayMs, mergeAtMs > 0 ? mergeAtMs : Infinity);
      return { requeueAfterMs: Math.max(1000, nextMs - systemClock.now()) };
    },
  };
}

function before(hour: UsageHour, hours: number): UsageHour {
  return hourAt(hourStart(hour) - hours * HOUR_MS);
}
