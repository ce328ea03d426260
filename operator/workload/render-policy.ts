import { withDefaults } from "../../crds/defaults.ts";
import type { NetworkPolicy, NetworkPolicyEgressRule } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { policyName } from "../../crds/names.ts";
import type { Workload } from "../../crds/workload.ts";
import { metadataRanges, partsOf } from "../cluster/address-ranges.ts";
import { clusterDns } from "../cluster/dns-rule.ts";

// The metadata addresses are closed for each `network.access`.
const anyAddressButMetadata = ["0.0.0.0/0", "::/0"].map((cidr) => ({
  ipBlock: { cidr, except: partsOf(cidr, metadataRanges) },
}));

const egressRules: Record<"none" | "restricted" | "unrestricted", NetworkPolicyEgressRule[]> = {
  none: [],
  restricted: [clusterDns, { to: anyAddressButMetadata, ports: [{ protocol: "TCP", port: 443 }] }],
  // Some network plugins match pods by selector alone, never by address.
  unrestricted: [{ to: [...anyAddressButMetadata, { namespaceSelector: {} }] }],
};

/**
 * Renders the network policy of a workload's pods, warm and claimed. Egress follows `network.access`. Ingress is open
 * to all pods except the managed ones, so that no tenant reaches another.
 *
 * It has the form in which the API server stores it, so that the two can be compared.
 */
export function renderPolicy(workload: Workload, namespace: string): NetworkPolicy {
  // An unknown access is closed.
  const egress = egressRules[withDefaults(workload.spec).network.access] ?? egressRules.none;
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: {
      name: policyName(workload.metadata.name),
      namespace,
      labels: { [label.managed]: "true", [label.workload]: workload.metadata.name },
    },
    spec: {
      podSelector: { matchLabels: { [label.managed]: "true", [label.workload]: workload.metadata.name } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [
        {
          from: [
            {
              namespaceSelector: {},
              podSelector: { matchExpressions: [{ key: label.managed, operator: "DoesNotExist" }] },
            },
          ],
        },
      ],
      ...(egress.length > 0 && { egress }),
    },
  };
}
