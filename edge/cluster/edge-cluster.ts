import { pods } from "../../crds/client/built-in-resources.ts";
import { answerCache, type Cluster, createCluster } from "../../crds/client/cluster.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { claims, pools, triggers, workloads } from "../../crds/kinds.ts";
import type { ClusterCache } from "./watch-cluster.ts";

/** The cluster as the edge writes it: each answer goes into the cache, so that the next request sees the write. */
export function createEdgeCluster({
  client,
  namespace,
  cache,
}: {
  client: ClusterClient;
  namespace: string;
  cache: ClusterCache;
}): Cluster {
  const caches = [
    answerCache(claims, cache.claims),
    answerCache(workloads, cache.workloads),
    answerCache(pods, cache.pods),
    answerCache(triggers, cache.triggers),
    answerCache(pools, cache.pools),
  ];
  return createCluster({ client, namespace, fieldManager: "tenancy-edge", caches });
}
