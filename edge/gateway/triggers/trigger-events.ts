import type { Clock } from "../../../crds/client/clock.ts";
import type { EventRecorder } from "../../../crds/client/event-recorder.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { Trigger } from "../../../crds/trigger.ts";

/** Records what happened to a trigger as Kubernetes Events. */
export interface TriggerEvents {
  record(trigger: Trigger, event: { type: "Normal" | "Warning"; reason: string; message: string }): void;
}

const INTERVAL_MS = 60_000;
const MOST_REMEMBERED = 1024;

/** Writes the same Event once a minute at most, however many deliveries a stranger sends. */
export function createTriggerEvents(options: { recorder: Pick<EventRecorder, "record">; clock: Clock }): TriggerEvents {
  const { recorder, clock } = options;
  const lastAt = new Map<string, number>();
  return {
    record(trigger, event) {
      const key = JSON.stringify([trigger.metadata.uid, event.reason, event.message]);
      const now = clock.now();
      if (now - (lastAt.get(key) ?? Number.NEGATIVE_INFINITY) < INTERVAL_MS) return;
      lastAt.delete(key);
      lastAt.set(key, now);
      const [oldest] = lastAt.keys();
      if (lastAt.size > MOST_REMEMBERED && oldest !== undefined) lastAt.delete(oldest);
      recorder.record({ resource: triggers, object: trigger, ...event });
    },
  };
}
