import { isDeepStrictEqual } from "node:util";
import { networkPolicies } from "../crds/client/built-in-resources.ts";
import type { Cluster } from "../crds/client/cluster.ts";
import type { KubernetesObject, NetworkPolicy, OwnerReference } from "../crds/kubernetes.ts";
import type { Resource } from "../crds/resource.ts";

/** As whom earlier versions applied network policies. */
const FORMER_FIELD_MANAGER = "pepr";

/** Has an object go with its owner, whoever runs by then: the cluster's garbage collector deletes it. */
export function ownerReference<T extends KubernetesObject>(
  { group, version, kind }: Resource<T>,
  { metadata: { name, uid = "" } }: T,
): OwnerReference {
  return { apiVersion: `${group}/${version}`, kind, name, uid };
}

/**
 * Applies a network policy, and gives up what an earlier version of the operator owned of it.
 *
 * @param policy as the API server stores it
 * @param present the policy as it was before; undefined where there was none
 * @throws Error where it stays another than that
 */
export async function applyNetworkPolicy(
  policy: NetworkPolicy,
  { present, cluster }: { present: NetworkPolicy | undefined; cluster: Cluster },
): Promise<void> {
  // A field that is left out stays as somebody else has set it: an open `egress` under access `none`, for one.
  const spec = { ingress: [], egress: [], ...policy.spec };
  let applied = await cluster(networkPolicies).apply({ ...policy, spec });
  const { name, namespace, uid } = applied.metadata;
  if (present !== undefined && uid !== undefined) {
    // Whoever applies nothing owns nothing, and what nobody else owns goes. Last, since until then the policy would be
    // open; with the uid, since an apply to an object that is gone would make one that selects every pod.
    const nothing = { metadata: { name, namespace, uid } } as NetworkPolicy;
    applied = await cluster(networkPolicies).apply(nothing, { fieldManager: FORMER_FIELD_MANAGER });
  }
  if (!isDeepStrictEqual(applied.spec, policy.spec)) {
    throw new Error(`Network policy ${name} is not as it was applied: delete it, and it is made anew`);
  }
}
