import type { Claim } from "../../../crds/claim.ts";
import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { linkSignals, orAborted, startDeadline } from "../../../crds/waits.ts";
import type { ClaimServices } from "../../api/claims/claim-services.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { claimReleasedAt, type ReleaseHolds } from "../../release-hold.ts";
import { type DriverCall, DriverError, PodGoneError } from "../drivers/driver.ts";

/** How long the kubelet and the operator take to notice that a pod is lost. */
const NOTICED_MS = 5000;

/**
 * Waits until a claim has another pod than the unreachable one, another address of it, or none; at most 5 s, since the
 * container may be running and refuse connections.
 */
export async function untilPodChanges(
  claimed: ClaimKey & Pick<ClaimResponse, "instanceId" | "endpoint">,
  services: Pick<ClaimServices, "clock" | "waiters"> & { cache: Pick<ClusterCache, "claims"> },
  signal: AbortSignal,
): Promise<void> {
  const { cache, waiters, clock } = services;
  const deadline = startDeadline(NOTICED_MS, clock);
  try {
    while (!deadline.signal.aborted && !signal.aborted && isUnchanged()) {
      await waiters.next(claimed, [deadline.signal, signal]);
    }
  } finally {
    deadline.close();
  }

  function isUnchanged(): boolean {
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

/** A claimed pod with a known address. */
type ClaimedPod = ClaimKey & Required<Pick<ClaimResponse, "instanceId" | "endpoint">>;

/**
 * Runs the work while the pod has the claimed endpoint. Its signal is aborted with a `PodGoneError` as soon as the
 * watch shows the pod without the endpoint, or `drainMs` after its release has begun, and with the given signal's
 * reason. A release may not save what the pod does after that. The watch may be late, so the work's result is returned
 * only once it is certain that a release waits for it: the pod must announce the work as in flight.
 *
 * @throws DriverError if the claim has another pod now; PodGoneError if a release may not have saved the work
 */
export async function whilePodIsCurrent<T>(
  claimed: ClaimedPod,
  services: Pick<ClaimServices, "cluster" | "namespace" | "waiters" | "findLivePod" | "clock"> & {
    cache: Pick<ClusterCache, "claims" | "pods">;
    drainMs: number;
    holds: Pick<ReleaseHolds, "of">;
  },
  signal: AbortSignal,
  work: (pod: Pick<DriverCall, "signal" | "confirm">) => Promise<T>,
): Promise<T> {
  const { cache, namespace, waiters, findLivePod, clock, drainMs, holds } = services;
  const { instanceId, endpoint } = claimed;
  const held = claimOf(cache.claims.store.by("key", claimKey(claimed)));
  if (held === undefined) throw new DriverError(podGone().message, { nothingSent: true });
  const hold = holds.of(held);
  const releasedAt = (asked: AbortSignal) => claimReleasedAt(held, services, asked);
  const gone = new AbortController();
  const ended = new AbortController();
  const linked = linkSignals(signal, gone.signal);
  let cancelDrain: (() => void) | undefined;
  void follow();
  try {
    // Starts the check now, so that a quick answer does not wait for it.
    void hold.isHeld(releasedAt);
    const done = await work({ signal: linked.signal, confirm });
    const isHeld = hold.isHeld(releasedAt);
    if (isHeld !== true && !(await orAborted(isHeld, linked.signal)))
      throw new PodGoneError(`pod ${instanceId} is being released, and its changes may not be saved`);
    return done;
  } finally {
    ended.abort();
    cancelDrain?.();
    linked.close();
  }

  async function follow(): Promise<void> {
    while (!ended.signal.aborted && !gone.signal.aborted) {
      const pod = cache.pods.store.get({ namespace, name: instanceId });
      if (pod?.status?.podIP !== endpoint.host) return gone.abort(podGone());
      const claim = claimOf(cache.claims.store.by("key", claimKey(claimed)));
      if (claim?.metadata.deletionTimestamp !== undefined)
        cancelDrain ??= clock.after(drainMs, () => gone.abort(new PodGoneError(`pod ${instanceId} is being released`)));
      await waiters.next(claimed, [ended.signal]);
    }
  }

  async function confirm(): Promise<void> {
    const claim = claimOf(cache.claims.store.by("key", claimKey(claimed)));
    const pod = claim && (await findLivePod(claim, linked.signal));
    if (pod?.state !== "reachable" || pod.endpoint.host !== endpoint.host) throw podGone();
  }

  function claimOf(claims: Iterable<Claim>): Claim | undefined {
    for (const claim of claims) if (claim.status?.instanceId === instanceId) return claim;
    return undefined;
  }

  function podGone(): PodGoneError {
    return new PodGoneError(`pod ${instanceId} is gone, or is no longer at ${endpoint.host}`);
  }
}
