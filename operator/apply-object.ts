import { isDeepStrictEqual } from "node:util";
import { networkPolicies } from "../crds/client/built-in-resources.ts";
import type { Cluster } from "../crds/client/cluster.ts";
import type { NetworkPolicy } from "../crds/kubernetes.ts";

/** The field manager of earlier versions for network policies. */
const FORMER_FIELD_MANAGER = "pepr";

/**
 * Applies a network policy, and removes the fields that an earlier version of the operator owned.
 *
 * @param policy in the form in which the API server stores it
 * @param present the policy before; undefined if there was none
 * @throws Error if the stored spec still differs
 */
export async function applyNetworkPolicy(
  policy: NetworkPolicy,
  { present, cluster }: { present: NetworkPolicy | undefined; cluster: Cluster },
): Promise<void> {
  // An omitted field keeps the value of another client, for example an open `egress` under access `none`.
  const spec = { ingress: [], egress: [], ...policy.spec };
  let applied = await cluster(networkPolicies).apply({ ...policy, spec });
  const { name, namespace, uid } = applied.metadata;
  if (present !== undefined && uid !== undefined) {
    // An apply of nothing gives up all fields of that manager, and fields without another owner are removed. Do it
    // last, since the policy would be open in between. Send the uid, since an apply to a deleted object would create a
    // policy that selects all pods.
    const nothing = { metadata: { name, namespace, uid } } as NetworkPolicy;
    applied = await cluster(networkPolicies).apply(nothing, { fieldManager: FORMER_FIELD_MANAGER });
  }
  if (!isDeepStrictEqual(applied.spec, policy.spec)) {
    throw new Error(
      `Network policy ${name} differs from what was applied: delete it, and the operator creates it again`,
    );
  }
}
