import type { Claim } from "../../crds/claim.ts";
import type { ClaimResponse } from "../../crds/claim-response.ts";
import type { ClaimServices } from "../api/claims/claim-services.ts";
import { type ClaimKey, claimKey } from "../cluster/claim-key.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { type DriverCall, PodGoneError } from "./drivers/driver.ts";
import { linkSignals } from "./link-signals.ts";

/** A pod that was claimed, and looked at. */
type ClaimedPod = ClaimKey & Required<Pick<ClaimResponse, "instanceId" | "endpoint">>;

/**
 * Does the work for as long as the pod has the endpoint that was claimed: its signal is aborted with a `PodGoneError` as soon as the watch
 * shows the pod without it, and with the given signal's reason.
 */
export async function whilePodStands<T>(
  claimed: ClaimedPod,
  services: Pick<ClaimServices, "namespace" | "waiters" | "findLivePod"> & {
    cache: Pick<ClusterCache, "claims" | "pods">;
  },
  signal: AbortSignal,
  work: (pod: Pick<DriverCall, "signal" | "confirm">) => Promise<T>,
): Promise<T> {
  const { cache, namespace, waiters, findLivePod } = services;
  const { instanceId, endpoint } = claimed;
  const gone = new AbortController();
  const ended = new AbortController();
  const linked = linkSignals(signal, gone.signal);
  void follow();
  try {
    return await work({ signal: linked.signal, confirm });
  } finally {
    ended.abort();
    linked.close();
  }

  async function follow(): Promise<void> {
    while (!ended.signal.aborted && !gone.signal.aborted) {
      const pod = cache.pods.store.get(`${namespace}/${instanceId}`);
      if (pod?.status?.podIP === endpoint.host) await waiters.next(claimed, [ended.signal]);
      else gone.abort(podGone());
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
