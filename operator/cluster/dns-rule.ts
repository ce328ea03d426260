import type { NetworkPolicyEgressRule } from "../../crds/kubernetes.ts";

/** Allows DNS, and nothing else in the cluster. */
export const clusterDns: NetworkPolicyEgressRule = {
  to: [
    {
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
      podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
    },
  ],
  ports: [
    { protocol: "UDP", port: 53 },
    { protocol: "TCP", port: 53 },
  ],
};
