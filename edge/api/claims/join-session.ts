import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { isTransient } from "../../../crds/client/api-error.ts";
import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Span } from "../../../crds/tracing/tracer.ts";
import type { TriggerClaim } from "../../../crds/trigger.ts";
import { sleep } from "../../../crds/waits.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ClaimServices } from "./claim-services.ts";
import { claimTenant, ReleasedMeanwhile } from "./claim-tenant.ts";

/**
 * Claims a pod for incoming work, an event of a trigger or a request at the front door, with the tenant's saved data,
 * and waits for it.
 *
 * Unlike a caller of the REST API, the sender often cannot repeat the request. So failures that may pass, such as a
 * restart of the API server or a used-up quota, are retried within the same limit. Work whose claim is released while
 * it waits claims once more, so that it is not lost; a second release ends it.
 *
 * @param services `waitLimitMs` limits the whole call
 * @param options.claim settings of the claim, if this creates it
 * @param options.asks as in `claimTenant`. @default always
 * @param options.span as in `claimTenant`
 * @throws HttpError as `claimTenant` does; the signal's reason when it is aborted
 */
export async function joinSession(
  key: ClaimKey,
  services: ClaimServices,
  {
    signal,
    claim = {},
    asks = () => true,
    span,
  }: { signal: AbortSignal; claim?: TriggerClaim | undefined; asks?: () => boolean; span?: Span | undefined },
): Promise<ClaimResponse> {
  const { clock } = services;
  const until = clock.now() + services.waitLimitMs;
  const backoff = createBackoff({ initialMs: 250, maxMs: 5000 });
  // Joins the existing session, resumed or not: its release loses no files.
  const request = { ...key, ...claim, resume: true, joins: true };
  let wasReleased = false;
  for (;;) {
    signal.throwIfAborted();
    const waitLimitMs = Math.max(1, until - clock.now());
    try {
      const options = { clientGone: () => signal, asks, span };
      return await claimTenant(request, { ...services, waitLimitMs }, options);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ReleasedMeanwhile && !wasReleased) {
        wasReleased = true;
        continue;
      }
      const pauseMs = Math.max(backoff.next(), askedPauseMs(error));
      if (!mayPass(error) || clock.now() + pauseMs >= until) throw error;
      await sleep(pauseMs, { clock, signal });
    }
  }
}

/** What a refusal of a busy cluster asks for. */
function askedPauseMs(error: unknown): number {
  return error instanceof HttpError && error.status === 429 ? Number(error.headers["retry-after"]) * 1000 : 0;
}

function mayPass(error: unknown): boolean {
  if (error instanceof HttpError) return error.status === 503 || error.status === 429;
  return isTransient(error);
}
