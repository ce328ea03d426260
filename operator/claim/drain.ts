import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { IN_FLIGHT_PREFIX } from "../../crds/labels.ts";

/** The upper limit, longer than an edge waits for requests that are in flight when a release begins. */
const MOST_MS = 15_000;

/**
 * Milliseconds that a release still waits for requests in flight: until each edge has removed its announcement from the
 * pods, or the announced time is over. An edge that was killed does not remove it.
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
