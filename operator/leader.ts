import { createBackoff } from "../crds/client/backoff.ts";
import { systemClock } from "../crds/client/clock.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import { type HoldLeaseOptions, holdLease, type LeaseTerm } from "../crds/client/hold-lease.ts";
import { sleep } from "../crds/waits.ts";

/** The time during which this process is the leader. */
export type Term = LeaseTerm;

export interface LeaderOptions extends Omit<HoldLeaseOptions, "hold"> {
  /** Works until `term.signal` or `signal` is aborted, then stops its work and resolves. */
  lead(term: Term): Promise<void>;
}

/** Leads whenever it can get the Lease, until `signal` is aborted; leads again after a failure. */
export async function runWhenLeading(options: LeaderOptions): Promise<void> {
  const { lead, signal, log, ...lease } = options;
  const backoff = createBackoff({ initialMs: 500, maxMs: 10_000 });
  while (!signal.aborted) {
    try {
      await holdLease({ ...lease, signal, log, hold: lead });
      backoff.reset();
    } catch (error) {
      if (signal.aborted) throw error;
      log.error({ error }, "leadership term failed, retrying");
      await sleep(backoff.next(), { clock: systemClock, signal });
    }
  }
}

/** A write that was not sent, because this process does not lead any more. */
export class NotLeadingError extends Error {
  override readonly name = "NotLeadingError";
}

/** A client that sends writes only during the term, and aborts them when the term may have ended. */
export function fencedClient(client: ClusterClient, term: Term): ClusterClient {
  function limit(timeoutMs = Number.POSITIVE_INFINITY): number {
    const timeLeftMs = term.writeTimeLeftMs();
    if (timeLeftMs <= 0) throw new NotLeadingError("Cannot write: this operator does not lead");
    return Math.min(timeoutMs, timeLeftMs);
  }
  return {
    ...client,
    create: async (resource, object, options) =>
      client.create(resource, object, { ...options, timeoutMs: limit(options?.timeoutMs) }),
    replace: async (resource, object, options) =>
      client.replace(resource, object, { ...options, timeoutMs: limit(options?.timeoutMs) }),
    patch: async (resource, reference, options) =>
      client.patch(resource, reference, { ...options, timeoutMs: limit(options?.timeoutMs) }),
    apply: async (resource, object, options) =>
      client.apply(resource, object, { ...options, timeoutMs: limit(options?.timeoutMs) }),
    delete: async (resource, reference, options) =>
      client.delete(resource, reference, { ...options, timeoutMs: limit(options?.timeoutMs) }),
  };
}
