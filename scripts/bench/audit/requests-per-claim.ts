import type { RequestsPerClaim } from "../report/summarise.ts";
import type { RequestCount } from "./count-requests.ts";

const READS = new Set(["get", "list"]);

/** What one of `claims` claims cost the API server, without what refilled the pool. */
export function requestsPerClaim(counts: readonly RequestCount[], claims: number): RequestsPerClaim {
  const total = (isRead: boolean) =>
    counts
      .filter(({ refill, verb }) => !refill && READS.has(verb) === isRead)
      .reduce((sum, { count }) => sum + count, 0);
  return { writes: total(false) / claims, reads: total(true) / claims };
}
