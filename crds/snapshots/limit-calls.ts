import { NetworkError } from "../client/api-error.ts";
import type { Clock } from "../client/clock.ts";
import { withTimeLimit } from "../waits.ts";
import type { StoreCall } from "./snapshot-store.ts";

/** Does the work of a call. The signal is aborted if the call's signal is aborted or its time is over. */
export type LimitCall = <T>(call: StoreCall, work: (signal: AbortSignal) => Promise<T>) => Promise<T>;

/** @param options.verb for the error's message, after "Cannot" */
export function limitCalls({ verb, clock }: { verb: string; clock: Clock }): LimitCall {
  return async ({ signal, timeoutMs: ms }, work) => {
    const what = () => new NetworkError(`Cannot ${verb}: not done within ${ms} ms`, { requestWasSent: true });
    return await withTimeLimit({ what, ms, clock, signal }, work);
  };
}
