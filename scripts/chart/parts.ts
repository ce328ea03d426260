import type { Condition } from "./tree.ts";

/** A component of `manifests/components`, and the condition under which the chart has it. */
export interface Part {
  component: string;
  when: string;
  /** The component that it patches, if that is not the base. */
  of?: keyof typeof OWN_NAMESPACES;
}

/**
 * All components that the chart can have in addition to the base, each after the one that it patches. A new component
 * needs one line here, and its values in `values.ts`.
 */
export const PARTS: readonly Part[] = [
  { component: "split-edge", when: ".Values.edge.split" },
  { component: "edge-ingress", when: ".Values.edge.ingress.enabled" },
  { component: "edge-httproute", when: ".Values.edge.httpRoute.enabled" },
  { component: "gateway-ingress", when: ".Values.gateway.ingress.enabled" },
  { component: "gateway-httproute", when: ".Values.gateway.httpRoute.enabled" },
  { component: "front-door", when: ".Values.frontDoor.enabled" },
  { component: "front-door-public", when: "and .Values.frontDoor.enabled .Values.frontDoor.public" },
  { component: "front-door-ingress", when: "and .Values.frontDoor.enabled .Values.frontDoor.ingress.enabled" },
  { component: "front-door-httproute", when: "and .Values.frontDoor.enabled .Values.frontDoor.httpRoute.enabled" },
  { component: "admission", when: ".Values.admission.enabled" },
  { component: "egress", when: ".Values.egress.enabled" },
  { component: "builds", when: ".Values.builds.enabled" },
  { component: "admission-builds", when: "and .Values.builds.enabled .Values.admission.enabled", of: "builds" },
  { component: "keys", when: ".Values.keys.enabled" },
  { component: "service-accounts", when: ".Values.serviceAccounts.enabled" },
  { component: "nodes", when: ".Values.nodes.enabled" },
  { component: "object-storage", when: 'hasPrefix "s3://" .Values.snapshots.store' },
  { component: "sink", when: ".Values.sink.enabled" },
  { component: "traces", when: ".Values.traces.enabled" },
  { component: "monitoring", when: ".Values.monitoring.enabled" },
  { component: "priority", when: ".Values.priority.enabled" },
  { component: "flow-control", when: ".Values.flowControl.enabled" },
  { component: "quota", when: ".Values.quota.enabled" },
];

/** Folders of `manifests` that are separate kustomizations, and the conditions under which the chart has them. */
export const OWN_NAMESPACES = { builds: ".Values.builds.enabled", keys: ".Values.keys.enabled" } as const;

/** The additional condition of an object of a kind. */
export function conditionOf({ kind, name }: { kind: string; name: string }): Condition {
  if (kind === "CustomResourceDefinition") return ".Values.crds.install";
  if (kind === "NetworkPolicy") return ".Values.networkPolicies.enabled";
  if (kind.startsWith("ValidatingAdmissionPolicy")) return ".Values.admission.policies";
  // With a single replica, it would prevent the drain of a node.
  const program = Object.entries(PROGRAMS).find(([deployment]) => deployment === name)?.[1];
  if (kind === "PodDisruptionBudget" && program !== undefined) return `gt (int .Values.${program}.replicas) 1`;
  return undefined;
}

/** The Deployments and their values. */
export const PROGRAMS = {
  "tenancy-operator": "operator",
  "tenancy-edge": "edge",
  "tenancy-gateway": "gateway",
  "tenancy-proxy": "frontDoor",
} as const;

/** The value that names a namespace. */
export function namespaceOf(name: string): string {
  if (name === "tenancy-keys") return ".Values.keys.namespace";
  return name === "tenancy-builds" ? ".Values.builds.namespace" : ".Values.namespace.name";
}
