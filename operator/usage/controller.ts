import { systemClock } from "../../crds/client/clock.ts";
import { claims } from "../../crds/kinds.ts";
import { HOUR_MS, hourAt, hourStart } from "../../crds/usage/usage-hour.ts";
import type { ClaimContext } from "../claim/context.ts";
import type { Controller } from "../controller.ts";

/** A new leader has more urgent work first. */
const FIRST_MS = 30_000;

/** Records each hour of the sessions that go on after it. */
export function createUsageController(context: ClaimContext): Controller<"usage"> {
  const { cluster, config, usage } = context;
  // A claim may have become Active under an earlier leader, whose last write arrives this late.
  const delayMs = config.leaseMs + 5000;
  return {
    name: "usage",
    priority: 3,
    concurrency: 1,
    initial: usage.isOn ? [{ key: "hours", afterMs: FIRST_MS }] : [],
    watches: [],
    async reconcile(_key, { signal }) {
      const hour = hourAt(systemClock.now() - delayMs);
      await usage.recordHours(hour, { list: async () => (await cluster(claims).list({ signal })).items, signal });
      return { requeueAfterMs: Math.max(1000, hourStart(hour) + HOUR_MS + delayMs - systemClock.now()) };
    },
  };
}
