import { systemClock } from "../crds/client/clock.ts";
import type { ClaimEvents } from "./claim/claim-events.ts";
import type { Controller } from "./controller.ts";
import type { UsageEvents } from "./usage/usage-events.ts";

/** A new leader has more urgent work first. */
const FIRST_MS = 30_000;
const NOTE_MS = 300_000;

/** Notes for the next leader what the sink has, and sends again what was lost. */
export function createSinkController({
  claims,
  usage,
}: {
  claims: ClaimEvents | undefined;
  usage: UsageEvents | undefined;
}): Controller<"sink"> {
  return {
    name: "sink",
    priority: 3,
    concurrency: 2,
    initial: [
      ...(claims === undefined ? [] : [{ key: "claims", afterMs: FIRST_MS }]),
      ...(usage === undefined ? [] : [{ key: "usage", afterMs: FIRST_MS }]),
    ],
    watches: [],
    async reconcile(key, { signal }) {
      if (key === "usage") return { requeueAfterMs: (await usage?.follow(signal)) ?? NOTE_MS };
      await claims?.follow(systemClock.now());
      return { requeueAfterMs: NOTE_MS };
    },
  };
}
