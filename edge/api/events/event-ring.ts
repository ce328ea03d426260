import type { ClaimPhase } from "../../../crds/claim.ts";

/** What an event tells. */
export type EventType =
  | `${"instance" | "workload" | "pool" | "trigger"}.${"added" | "modified" | "deleted"}`
  | `claim.${Lowercase<ClaimPhase> | "deleted"}`;

/** The first words of types, each of which a filter can name for all that begin with it. */
export const eventFamilies = ["instance", "claim", "workload", "pool", "trigger"] as const;
/** The families of a client that names no type. */
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

/** An event as it goes to clients, and what filters look at. */
export interface StoredEvent {
  readonly type: EventType;
  readonly tenant: string | undefined;
  readonly workload: string | undefined;
  /** The message, made once for all clients. */
  readonly text: string;
}

/** The last events, counted from 1. */
interface EventRing {
  /** Keeps an event, and drops the oldest where there is no more room. */
  add(event: StoredEvent): void;
  /** Counts an event that is not kept, and drops those before it. */
  skip(): void;
  /**
   * What came after the event of that number; undefined where some of it is not kept any more, or there never was one.
   */
  after(number: number): readonly StoredEvent[] | undefined;
}

/** Keeps at most so many events, and so many characters of them. */
export function createEventRing(limits: { events: number; characters: number }): EventRing {
  let kept: StoredEvent[] = [];
  /** Events at the front of `kept` that are dropped already; removed in bulk, since removing one moves all others. */
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
