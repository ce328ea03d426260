import type { ClaimPhase } from "../../../crds/claim.ts";

/** What an event tells. */
export type EventType = `instance.${"added" | "modified" | "deleted"}` | `claim.${Lowercase<ClaimPhase> | "deleted"}`;

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
];
