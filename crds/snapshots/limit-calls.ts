import { NetworkError } from "../client/api-error.ts";
import type { Clock } from "../client/clock.ts";
import { withTimeLimit } from "../waits.ts";
import type { StoreCall } from "./snapshot-store.ts";

/** Does the work of a call under a signal that is aborted when the call's is, or its time is up. */
export type LimitCall = <T>(call: StoreCall, work: (signal: AbortSignal) => Promise<T>) => Promise<T>;

/** @param options.verb what cannot be done in time, for the error's message */
export function limitCalls({ verb, clock }: { verb: string; clock: Clock }): LimitCall {
  return async ({ signal, timeoutMs: ms }, work) => {
    const what = () => new NetworkError(`Cannot ${verb}: not done within ${ms} ms`, { requestWasSent: true });
    return await withTimeLimit({ what, ms, clock, signal }, work);
  };
}
