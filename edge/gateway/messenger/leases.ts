import { orAborted } from "../../or-aborted.ts";
import type { AdapterContext } from "../adapter.ts";

/** The Leases of one trigger's tokens. */
export interface Leases {
  /**
   * Does the work while this process holds the Lease. Where `stop` is aborted before the work begins, it waits no longer; the work
   * is not done then.
   *
   * @throws what the work throws, or the reason of `stop`
   */
  whileHolding(lease: string, stop: AbortSignal, work: (held: AbortSignal) => Promise<void>): Promise<void>;
  /** Resolves when no Lease is waited for any longer. */
  closed(): Promise<void>;
}

export function createLeases(context: Pick<AdapterContext, "whileHolding" | "log">): Leases {
  /** Waits that nobody needs any longer: a Lease is waited for once at a time. */
  const leftover = new Map<string, Promise<void>>();
  return {
    async whileHolding(lease, stop, work) {
      const earlier = leftover.get(lease);
      if (earlier !== undefined) await orAborted(earlier, stop);
      let working: Promise<void> | undefined;
      let failure: unknown;
      const holding = context.whileHolding(lease, async (held) => {
        if (stop.aborted) return;
        working = work(held).catch((error: unknown) => {
          failure = error;
        });
        await working;
        if (failure !== undefined) throw failure;
      });
      try {
        await orAborted(holding, stop);
      } catch (error) {
        if (working === undefined && stop.aborted) {
          const waiting = holding
            .catch((reason: unknown) => context.log.debug({ reason, lease }, "a Lease is no longer waited for"))
            .finally(() => leftover.delete(lease));
          leftover.set(lease, waiting);
          throw error;
        }
        await working;
        await holding;
      }
      if (failure !== undefined) throw failure;
    },
    async closed() {
      await Promise.all(leftover.values());
    },
  };
}
