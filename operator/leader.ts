import { createBackoff } from "../crds/client/backoff.ts";
import { systemClock } from "../crds/client/clock.ts";
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
      log.error({ error }, "leading failed, it is tried again");
      await sleep(backoff.next(), { clock: systemClock, signal });
    }
  }
}
