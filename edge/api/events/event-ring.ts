import type { ClaimPhase } from "../../../crds/claim.ts";

export type EventType =
  | `${"instance" | "workload" | "pool" | "trigger"}.${"added" | "modified" | "deleted"}`
  | `claim.${Lowercase<ClaimPhase> | "deleted"}`;

/** The first parts of types; in a filter each matches all types that begin with it. */
export const eventFamilies = ["instance", "claim", "workload", "pool", "trigger"] as const;
/** The families for clients that name no type. */
export const usualFamilies: readonly string[] = ["instance", "claim"];

/** The family of a type. */
export function familyOf(type: EventType): string {
  return type.slice(0, type.indexOf("."));
}

/** Every type that a filter can name. */
export const eventTypes: readonly EventType[] = [
  "instance.added",
  "instance.modified",
  "instance.deleted",
  "claim.pending",
  "claim.active",
  "claim.releasing",
  "claim.released",
  "claim.releasefailed",
  "claim.error",
  "claim.deleted",
  "workload.added",
  "workload.modified",
  "workload.deleted",
  "pool.added",
  "pool.modified",
  "pool.deleted",
  "trigger.added",
  "trigger.modified",
  "trigger.deleted",
];

/** An event as sent to clients, with the fields that filters use. */
export interface StoredEvent {
  readonly type: EventType;
  readonly tenant: string | undefined;
  readonly workload: string | undefined;
  /** The message, serialized once for all clients. */
  readonly text: string;
}

/** The last events, numbered from 1. */
interface EventRing {
  /** Stores an event, and drops the oldest if the limits are exceeded. */
  add(event: StoredEvent): void;
  /** Counts an event without storing it, and drops those before it. */
  skip(): void;
  /** The events after that number; undefined if some of them are no longer stored, or the number never existed. */
  after(number: number): readonly StoredEvent[] | undefined;
}

/** Stores at most so many events and characters. */
export function createEventRing(limits: { events: number; characters: number }): EventRing {
  let kept: StoredEvent[] = [];
  /** Number of dropped events at the front of `kept`; removed in bulk, since each removal moves all others. */
  let start = 0;
  let count = 0;
  let characters = 0;
  return {
    add(event) {
      kept.push(event);
      count += 1;
      characters += event.text.length;
      while (kept.length - start > limits.events || characters > limits.characters) {
        characters -= kept[start]?.text.length ?? 0;
        start += 1;
      }
      if (start > limits.events) {
        kept = kept.slice(start);
        start = 0;
      }
    },
    skip() {
      kept = [];
      start = 0;
      characters = 0;
      count += 1;
    },
    after(number) {
      const missed = count - number;
      if (missed < 0 || missed > kept.length - start) return undefined;
      return kept.slice(kept.length - missed);
    },
  };
}
