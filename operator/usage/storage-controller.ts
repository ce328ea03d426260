import { createBackoff } from "../../crds/client/backoff.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { HOUR_MS, hourAt, hourStart } from "../../crds/usage/usage-hour.ts";
import type { ClaimContext } from "../claim/context.ts";
import type { Controller } from "../controller.ts";
import type { StorageRecorder } from "./record-storage.ts";

/** A new leader, and the end of each hour, have more urgent work first. */
const DELAY_MS = 120_000;
/** Until a list that failed is read again: it may be long. */
const BACKOFF = { initialMs: 300_000, maxMs: HOUR_MS };

/** Records the space that archives take, after each hour or less often. */
export function createStorageController(
  { log }: Pick<ClaimContext, "log">,
  storage: StorageRecorder | undefined,
): Controller<"storage"> {
  const backoff = createBackoff(BACKOFF);
  return {
    name: "storage",
    priority: 3,
    concurrency: 1,
    initial: storage === undefined ? [] : [{ key: "hours", afterMs: DELAY_MS }],
    watches: [],
    async reconcile(_key, { signal }) {
      try {
        const next = await storage?.record(hourAt(systemClock.now() - DELAY_MS), signal);
        backoff.reset();
        if (next === undefined) return undefined;
        return { requeueAfterMs: Math.max(1000, hourStart(next) + DELAY_MS - systemClock.now()) };
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ error }, "cannot record the space of archives, trying again later");
        return { requeueAfterMs: backoff.next() };
      }
    },
  };
}
