import { isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import type { ClusterView } from "../../cluster/cluster-cache.ts";
import { requireContact } from "../../cluster/require-contact.ts";
import { slimPod } from "../../cluster/slim-pod.ts";
import { instanceNotFound } from "./instance-not-found.ts";

/**
 * A managed pod by its name: from the store, else from the cluster, since the watch may be a moment behind the claim that named it.
 *
 * @throws HttpError 404 where there is none, also for a pod that is not ours; 503 without a view of the cluster
 */
export async function findInstance(
  name: string,
  { client, namespace, view }: { client: ClusterClient; namespace: string; view: Pick<ClusterView, "pods"> },
): Promise<Pod> {
  requireContact(view.pods);
  const known = view.pods.store.get(`${namespace}/${name}`);
  if (known !== undefined) return known;
  try {
    const pod = await client.get(pods, { namespace, name });
    if (pod.metadata.labels?.[label.managed] === "true") return slimPod(pod);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  throw instanceNotFound(name);
}
