import { isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import type { Activity } from "../../activity.ts";
import { requireFresh } from "../../cluster/freshness.ts";
import { slimPod } from "../../cluster/slim-pod.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";
import { instanceNotFound } from "./instance-error.ts";

/**
 * A managed pod by its name: from the store, else from the cluster, since the watch may be a moment behind the claim that named it.
 *
 * @throws HttpError 404 where there is none, also for a pod that is not ours; 503 without a view of the cluster
 */
export async function findInstance(
  name: string,
  { client, namespace, cache }: { client: ClusterClient; namespace: string; cache: Pick<ClusterCache, "pods"> },
): Promise<Pod> {
  requireFresh(cache.pods);
  const known = cache.pods.store.get(`${namespace}/${name}`);
  if (known !== undefined) return known;
  try {
    const pod = await client.get(pods, { namespace, name });
    if (pod.metadata.labels?.[label.managed] === "true") return slimPod(pod);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  throw instanceNotFound(name);
}

/** What the instance routes work with. */
export interface InstanceServices {
  readonly client: ClusterClient;
  readonly namespace: string;
  readonly cache: Pick<ClusterCache, "pods" | "claims">;
  readonly kubectl: Kubectl;
  readonly activity: Activity;
  readonly clock: Clock;
}
