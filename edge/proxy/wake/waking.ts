import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { inSpan } from "../../../crds/tracing/tracer.ts";
import { orAborted } from "../../../crds/waits.ts";
import type { ClaimServices } from "../../api/claims/claim-services.ts";
import { joinSession } from "../../api/claims/join-session.ts";
import { HttpError } from "../../http/http-error.ts";

/** Wakes the pods of tenants for requests. */
export interface Waking {
  /**
   * Claims the tenant's pod, and resolves when it is ready. Concurrent requests for it share one claim call; it ends a
   * few seconds after the last of them has gone, and the claim stays.
   *
   * @param options.isInsider strangers may use only half of the capacity
   * @throws HttpError as a claim call does; 503 if too many are woken at the same time; the signal's reason
   */
  wake(key: ClaimKey, options: { gone: AbortSignal; isInsider: boolean }): Promise<ClaimResponse>;
  /** Number of pods being woken. */
  readonly size: number;
  /** Ends the calls in progress. */
  close(): void;
}

/** Time for a browser that got a page to ask again. */
const LINGER_MS = 5000;
/** How long a failure is returned to others too, so that a broken workload is not claimed for each request. */
const FAILURE_MS = 1000;

interface Call {
  readonly ready: Promise<ClaimResponse>;
  readonly abort: AbortController;
  waiters: number;
  /** Whether it is settled; a failed one is kept for a while. */
  isOver: boolean;
  cancelTimer: (() => void) | undefined;
}

/**
 * @param options.claims `waitLimitMs` is how long a request waits
 * @param options.isFound whether a claim's pod is in the caches, so that it need not be read: a connection to it
 * confirms   its address in any case
 * @param options.atOnce how many are woken concurrently, so that visitors cannot queue without limit
 */
export function createWaking(options: {
  claims: ClaimServices;
  isFound: (key: ClaimKey) => boolean;
  atOnce: number;
  /** Called for each pod that was woken. */
  onWoken?: (woken: { claim: ClaimResponse; ms: number }) => void;
}): Waking {
  const { claims, isFound, atOnce, onWoken } = options;
  const { clock } = claims;
  const calls = new Map<string, Call>();

  function start(key: ClaimKey, id: string): Call {
    const abort = new AbortController();
    const startedAt = clock.now();
    // A trace of its own: many visitors may share it, and their trace headers are not trusted.
    const span = claims.tracer?.start("wake instance");
    const join = () => joinSession(key, claims, { signal: abort.signal, asks: () => !isFound(key), span });
    const ready = inSpan(span, join);
    const call: Call = { ready, abort, waiters: 0, isOver: false, cancelTimer: undefined };
    calls.set(id, call);
    ready.then(
      (claim) => {
        call.isOver = true;
        drop(id, call);
        onWoken?.({ claim, ms: clock.now() - startedAt });
      },
      () => {
        call.isOver = true;
        if (calls.get(id) === call) setTimer(call, FAILURE_MS, () => drop(id, call));
      },
    );
    return call;
  }

  function setTimer(call: Call, ms: number, callback: () => void): void {
    call.cancelTimer?.();
    call.cancelTimer = clock.after(ms, callback);
  }

  function drop(id: string, call: Call): void {
    call.cancelTimer?.();
    if (calls.get(id) === call) calls.delete(id);
  }

  return {
    async wake(key, { gone, isInsider }) {
      gone.throwIfAborted();
      const id = claimKey(key);
      let call = calls.get(id);
      if (call === undefined) {
        if (calls.size >= (isInsider ? atOnce : atOnce / 2))
          throw new HttpError(503, "too many instances are being started; try again shortly");
        call = start(key, id);
      }
      const joined = call;
      if (!joined.isOver) joined.cancelTimer?.();
      joined.waiters += 1;
      try {
        return await orAborted(joined.ready, gone);
      } finally {
        joined.waiters -= 1;
        if (joined.waiters === 0 && !joined.isOver) {
          setTimer(joined, LINGER_MS, () => {
            drop(id, joined);
            joined.abort.abort(new Error("no caller waits for it any more"));
          });
        }
      }
    },
    get size() {
      return calls.size;
    },
    close() {
      for (const [id, call] of calls) {
        drop(id, call);
        call.abort.abort(new Error("the edge is stopping"));
      }
    },
  };
}
