import { annotation } from "../../crds/labels.ts";
import { type ClaimPair, pairKey } from "../claims/claim-pair.ts";
import type { ClaimServices } from "../claims/claim-services.ts";
import { releaseTenant } from "../claims/release-tenant.ts";
import { HttpError } from "../http-error.ts";

/**
 * Releases a claim whose pod a destroy call removed: it stays Active without a pod for ever (spec.md, section 4.5), and an event's source,
 * unlike a caller of the API, cannot release it. There is nothing in it that could be lost.
 *
 * @throws HttpError as `releaseTenant` does; the signal's reason when it is aborted
 */
export async function releaseDestroyed(pair: ClaimPair, services: ClaimServices, signal: AbortSignal): Promise<void> {
  const isDestroyed = [...services.view.claims.store.by("pair", pairKey(pair))].some(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined &&
      status?.phase === "Active" &&
      status.instanceId !== undefined &&
      metadata.annotations?.[annotation.destroyed] === status.instanceId,
  );
  if (!isDestroyed) return;
  try {
    await releaseTenant(pair, services, { wait: true, clientGone: () => signal });
  } catch (error) {
    signal.throwIfAborted();
    // Another event has released it meanwhile.
    if (!(error instanceof HttpError) || error.status !== 404) throw error;
  }
}
