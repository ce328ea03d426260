import { configMaps, jobs, networkPolicies, pods, secrets, services } from "../crds/client/built-in-resources.ts";
import { answerCache, type Cluster, createCluster } from "../crds/client/cluster.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import { claims, pools, workloads } from "../crds/kinds.ts";
import type { KubernetesObject, NetworkPolicy, Pod, Service } from "../crds/kubernetes.ts";
import { label } from "../crds/labels.ts";
import { SNAPSHOTS_LABELS } from "../crds/snapshots/store-folder.ts";
import type { WholeContext } from "./start-caches.ts";

/** The operator's field manager, https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers. */
export const FIELD_MANAGER = "tenancy-operator";

/**
 * The operator's cluster client. The answer to each write goes into the informer of the object, so that the next
 * reconcile sees the write before the watch shows it.
 *
 * @param options.client the fenced client, so that only the leader writes
 */
export function createOperatorCluster({
  client,
  namespace,
  informers,
  serviceWatch,
}: {
  client: ClusterClient;
  namespace: string;
  informers: WholeContext["informers"];
  serviceWatch: { put(service: Service): void };
}): Cluster {
  // Objects in another namespace belong to builds.
  const { builds, egress, helperPods } = informers;
  const caches = [
    answerCache(claims, informers.claims),
    answerCache(workloads, informers.workloads),
    answerCache(pools, informers.pools),
    answerCache<Pod>(pods, {
      put(pod) {
        if (pod.metadata.namespace !== namespace) builds?.pods.put(pod);
        else if (isHelper(pod)) helperPods.put(pod);
        else if (pod.metadata.labels?.[label.build] === undefined) informers.pods.put(pod);
      },
    }),
    answerCache<NetworkPolicy>(networkPolicies, {
      put(policy) {
        const informer = policy.metadata.namespace === namespace ? informers.networkPolicies : builds?.policies;
        informer?.put(policy);
      },
    }),
    answerCache(jobs, builds?.jobs),
    answerCache(configMaps, egress && { put: (configMap) => egress.configMaps.put(metadataAlone(configMap)) }),
    answerCache(secrets, egress && { put: (secret) => egress.secrets.put(metadataAlone(secret)) }),
    answerCache(services, serviceWatch),
  ];
  return createCluster({ client, namespace, fieldManager: FIELD_MANAGER, caches });
}

function isHelper({ metadata: { labels = {} } }: Pod): boolean {
  return Object.entries(SNAPSHOTS_LABELS).every(([key, value]) => labels[key] === value);
}

/** The part of ConfigMaps and Secrets that informers store: never a value. */
function metadataAlone({ metadata }: KubernetesObject): KubernetesObject {
  return { metadata };
}
