import type { ClaimResponse } from "../../crds/claim-response.ts";
import type { ClaimServices } from "../api/claims/claim-services.ts";
import { type ClaimKey, claimKey } from "../cluster/claim-key.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { startDeadline } from "../deadline.ts";

/** What the kubelet and the operator take to notice a pod that is lost. */
const NOTICED_MS = 5000;

/**
 * Waits until a claim shows another pod than the one that could not be reached, another address of it, or that it has none; for at most 5 s,
 * since a container may as well be there and refuse.
 */
export async function untilPodChanges(
  claimed: ClaimKey & Pick<ClaimResponse, "instanceId" | "endpoint">,
  services: Pick<ClaimServices, "clock" | "waiters"> & { cache: Pick<ClusterCache, "claims"> },
  signal: AbortSignal,
): Promise<void> {
  const { cache, waiters, clock } = services;
  const deadline = startDeadline(NOTICED_MS, clock);
  try {
    while (!deadline.signal.aborted && !signal.aborted && isStill()) {
      await waiters.next(claimed, [deadline.signal, signal]);
    }
  } finally {
    deadline.close();
  }

  function isStill(): boolean {
    const found = [...cache.claims.store.by("key", claimKey(claimed))];
    return found.some(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined &&
        status?.phase === "Active" &&
        status.instanceId === claimed.instanceId &&
        status.endpoint?.host === claimed.endpoint?.host,
    );
  }
}
