import { networkPolicies } from "../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { KubernetesObject, NetworkPolicy } from "../crds/kubernetes.ts";
import type { Resource } from "../crds/resource.ts";

/** The operator's name as the owner of fields. */
const FIELD_MANAGER = "tenancy-operator";
/** The owner of network policies that earlier versions applied. */
const FORMER_FIELD_MANAGER = "pepr";

/**
 * Applies a child object by server-side apply, in the one name that the operator has as the owner of fields; takes over
 * what others have set in the fields that it names (docs/decisions/watch-and-caches.md).
 */
export function applyObject<T extends KubernetesObject>(
  resource: Resource<T>,
  object: T,
  { client }: { client: ClusterClient },
): Promise<T> {
  return client.apply(resource, object, { fieldManager: FIELD_MANAGER, force: true });
}

/**
 * Applies a network policy, and ends the ownership of what an earlier version applied; `present` is the policy as it
 * stands.
 */
export async function applyNetworkPolicy(
  policy: NetworkPolicy,
  { present, client }: { present: NetworkPolicy | undefined; client: ClusterClient },
): Promise<void> {
  // A field that is left out stays as somebody else has set it: an open `egress` under access `none`, for one.
  const spec = { ingress: [], egress: [], ...policy.spec };
  const { metadata } = await applyObject(networkPolicies, { ...policy, spec }, { client });
  if (present === undefined || metadata.uid === undefined) return;
  // Whoever applies nothing owns nothing, and what nobody else owns goes. Last, since until then the policy would be
  // open; with the uid, since an apply to an object that is gone would make one that selects every pod.
  const { name, namespace, uid } = metadata;
  const nothing = { metadata: { name, namespace, uid } } as NetworkPolicy;
  await client.apply(networkPolicies, nothing, { fieldManager: FORMER_FIELD_MANAGER });
}
