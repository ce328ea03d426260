import { type ClaimKey, canonicalClaim, claimKey } from "../../../crds/claims/claim-key.ts";
import { isDestroyed, isPodOf } from "../../../crds/claims/claim-pod.ts";
import type { ClaimServices } from "../../api/claims/claim-services.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { claimReleasedAt } from "../../release-hold.ts";
import { AnswerError } from "../forward.ts";
import { errorAnswer } from "../http/local-answer.ts";
import type { PodTarget } from "../pod-connections.ts";

/** A tenant's running pod. */
export interface AwakePod extends PodTarget {
  readonly name: string;
  /** Asks as {@link claimReleasedAt} does for its claim. */
  releasedAt(signal: AbortSignal): Promise<number | undefined>;
}

export type FindAwake = (key: ClaimKey, port: number | undefined) => AwakePod | undefined;

/**
 * Returns a function that finds a tenant's pod in the caches, without a wait: that of its claim, if it is Active and
 * the pod has an address. A cache may be stale, so each new connection is confirmed by the API server before anything
 * is sent on it.
 */
export function createFindAwake(
  services: Pick<ClaimServices, "cluster" | "namespace" | "findLivePod"> & {
    readonly cache: Pick<ClusterCache, "claims" | "pods">;
  },
): FindAwake {
  const { cache, cluster, namespace, findLivePod } = services;
  return (key, port) => {
    const claim = canonicalClaim(cache.claims.store.by("key", claimKey(key)));
    const { phase, instanceId, endpoint } = claim?.status ?? {};
    if (claim === undefined || phase !== "Active" || instanceId === undefined || endpoint === undefined)
      return undefined;
    if (claim.metadata.deletionTimestamp !== undefined || isDestroyed(claim)) return undefined;
    const pod = cache.pods.store.get({ namespace, name: instanceId });
    const host = pod?.status?.podIP;
    const uid = pod?.metadata.uid;
    if (pod === undefined || host === undefined || uid === undefined || !isPodOf(pod, claim)) return undefined;
    return {
      uid,
      name: instanceId,
      host,
      port: port ?? endpoint.port,
      async confirm(signal) {
        try {
          // Requests may still go to a pod whose release waits for them; releasedAt() says how long.
          const live = await findLivePod(claim, signal, { withClaim: false });
          return live.state === "reachable" && live.uid === uid && live.endpoint.host === host;
        } catch (error) {
          signal.throwIfAborted();
          const answer = errorAnswer(503, "the cluster cannot be reached; try again", [["Retry-After", "1"]]);
          throw new AnswerError(answer, { cause: error });
        }
      },
      releasedAt: (signal) => claimReleasedAt(claim, { cluster }, signal),
    };
  };
}
