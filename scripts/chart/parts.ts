import type { Condition } from "./tree.ts";

/** A component of `manifests/components`, and when the chart has it. */
export interface Part {
  component: string;
  when: string;
  /** What it patches where it is not of the base. */
  of?: "builds";
}

/**
 * All that the chart can have beside the base, each after what it patches. A new component is one line here, and its
 * values in `values.ts`.
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
  { component: "object-storage", when: 'hasPrefix "s3://" .Values.snapshots.store' },
  { component: "traces", when: ".Values.traces.enabled" },
  { component: "monitoring", when: ".Values.monitoring.enabled" },
  { component: "priority", when: ".Values.priority.enabled" },
  { component: "flow-control", when: ".Values.flowControl.enabled" },
  { component: "quota", when: ".Values.quota.enabled" },
];

/** When the chart has `manifests/builds`, a kustomization of its own. */
export const BUILDS = ".Values.builds.enabled";

/** What an object of a kind takes beside the condition of its part. */
export function conditionOf({ kind, name }: { kind: string; name: string }): Condition {
  if (kind === "CustomResourceDefinition") return ".Values.crds.install";
  if (kind === "NetworkPolicy") return ".Values.networkPolicies.enabled";
  if (kind.startsWith("ValidatingAdmissionPolicy")) return ".Values.admission.policies";
  // With a single replica it would keep every node from being drained.
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
  return name === "tenancy-builds" ? ".Values.builds.namespace" : ".Values.namespace.name";
}
