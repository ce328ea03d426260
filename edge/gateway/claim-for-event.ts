import type { ClaimResponse } from "../../crds/claim-response.ts";
import { ApiError, NetworkError } from "../../crds/client/api-error.ts";
import { createBackoff } from "../../crds/client/backoff.ts";
import { sleep } from "../../crds/client/sleep.ts";
import type { ClaimServices } from "../api/claims/claim-services.ts";
import { claimTenant, ReleasedMeanwhile } from "../api/claims/claim-tenant.ts";
import type { ClaimKey } from "../cluster/claim-key.ts";
import { HttpError } from "../http/http-error.ts";

/**
 * Claims a pod for an event, with the tenant's data of last time, and waits for it.
 *
 * Unlike a caller of the REST API, an event's source often cannot ask again: what may pass by itself, such as a restart of the API server
 * or a used-up quota, is waited out within the same limit. An event whose claim is released while it waits claims anew once, so that it is not
 * lost; whoever releases again means it.
 *
 * @param services `waitLimitMs` bounds all of it
 * @throws HttpError as `claimTenant` does; the signal's reason when it is aborted
 */
export async function claimForEvent(
  pair: ClaimKey,
  services: ClaimServices,
  signal: AbortSignal,
): Promise<ClaimResponse> {
  const { clock } = services;
  const until = clock.now() + services.waitLimitMs;
  const backoff = createBackoff({ initialMs: 250, maxMs: 5000 });
  // An event belongs to the session that is there, whatever that began with: its release loses no files.
  const wish = { ...pair, resume: true, joins: true };
  let wasReleased = false;
  for (;;) {
    signal.throwIfAborted();
    const waitLimitMs = Math.max(1, until - clock.now());
    try {
      const options = { clientGone: () => signal, asksAlways: true };
      return await claimTenant(wish, { ...services, waitLimitMs }, options);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ReleasedMeanwhile && !wasReleased) {
        wasReleased = true;
        continue;
      }
      const pauseMs = backoff.next();
      if (!mayPass(error) || clock.now() + pauseMs >= until) throw error;
      await sleep(pauseMs, { clock, signal });
    }
  }
}

function mayPass(error: unknown): boolean {
  if (error instanceof NetworkError) return true;
  if (error instanceof HttpError) return error.status === 503;
  return error instanceof ApiError && (error.status === 429 || error.status >= 500);
}
