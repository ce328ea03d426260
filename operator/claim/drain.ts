import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { IN_FLIGHT_PREFIX } from "../../crds/labels.ts";

/** However long the edges say: longer than one lets requests end that are in flight when a release begins. */
const MOST_MS = 15_000;

/**
 * Milliseconds that a release still leaves to requests in flight: until every edge that may have some at the pods has
 * taken that back, or the time is over until which it said so. An edge that was killed says nothing any more.
 */
export function drainLeftMs({ metadata }: Claim, pods: readonly Pod[], now: number): number {
  const most = Date.parse(metadata.deletionTimestamp ?? "") + MOST_MS - now;
  let left = 0;
  for (const { metadata } of pods) {
    if (metadata.deletionTimestamp !== undefined) continue;
    for (const [key, time] of Object.entries(metadata.annotations ?? {}))
      if (key.startsWith(IN_FLIGHT_PREFIX)) left = Math.max(left, (Date.parse(time) || 0) - now);
  }
  return Math.max(0, Math.min(left, most || 0));
}
