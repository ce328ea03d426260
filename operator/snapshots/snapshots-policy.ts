import type { NetworkPolicy } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../crds/snapshots/snapshots-names.ts";

/** Renders the policy of the helper pod: it reaches nobody, and nobody reaches it; execs come through the kubelet. */
export function renderSnapshotsPolicy({ namespace }: { namespace: string }): NetworkPolicy {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: SNAPSHOTS_NAME, namespace, labels: { ...SNAPSHOTS_LABELS, [label.managed]: "true" } },
    spec: { podSelector: { matchLabels: SNAPSHOTS_LABELS }, policyTypes: ["Ingress", "Egress"] },
  };
}
