import type { TSchema } from "@sinclair/typebox";
import { claimSpecSchema, claimStatusSchema } from "../claim.ts";
import { claims, pools, triggers, workloads } from "../kinds.ts";
import type { KubernetesObject } from "../kubernetes.ts";
import { poolSpecSchema, poolStatusSchema } from "../pool.ts";
import type { Resource } from "../resource.ts";
import { readablePatterns } from "../schema/readable-patterns.ts";
import { type JsonSchema, plainSchema } from "../schema/schema.ts";
import { triggerSpecSchema, triggerStatusSchema } from "../trigger.ts";
import { workloadSpecSchema, workloadStatusSchema } from "../workload.ts";

/** A column of `kubectl get`; one of priority 1 is shown only with `-o wide`. */
export interface PrinterColumn {
  name: string;
  type: "string" | "integer" | "date";
  jsonPath: string;
  description: string;
  priority?: number;
}

/** The part of an apiextensions.k8s.io/v1 CustomResourceDefinition that we write. */
export interface CustomResourceDefinition extends KubernetesObject {
  spec: {
    group: string;
    scope: "Namespaced" | "Cluster";
    names: {
      kind: string;
      listKind: string;
      plural: string;
      singular: string;
      shortNames: string[];
      categories: string[];
    };
    versions: {
      name: string;
      served: boolean;
      storage: boolean;
      subresources: { status: object; scale?: object };
      additionalPrinterColumns: PrinterColumn[];
      /** Since Kubernetes 1.31, in 1.30 behind a feature gate; earlier API servers drop them. */
      selectableFields?: { jsonPath: string }[];
      schema: { openAPIV3Schema: JsonSchema };
    }[];
  };
}

interface Definition {
  resource: Resource<KubernetesObject>;
  shortName: string;
  description: string;
  spec: TSchema;
  status: TSchema;
  columns: PrinterColumn[];
  /** Paths that a field selector may name. */
  selectable?: string[];
  scale?: { specReplicasPath: string; statusReplicasPath: string; labelSelectorPath: string };
  metadata?: JsonSchema;
  /**
   * Whether the operator or the gateway validates the whole spec, so that rules which old API servers drop are
   * sufficient. @default false
   */
  isCheckedWhole?: boolean;
}

// The names of these kinds become label values, so they are limited to that length.
const labelValueName: JsonSchema = { type: "object", properties: { name: { type: "string", maxLength: 63 } } };
const age: PrinterColumn = {
  name: "Age",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
  description: "Time since creation.",
};

/** The definitions of the four kinds. */
export const definitions: readonly CustomResourceDefinition[] = [
  definition({
    resource: workloads,
    shortName: "tw",
    description: "A declarative description of a container that tenants can claim an instance of.",
    spec: workloadSpecSchema,
    status: workloadStatusSchema,
    metadata: labelValueName,
    isCheckedWhole: true,
    columns: [
      column("Image", ".spec.image.ref", "Image in a registry; empty if it is built from a build file."),
      column("Access", ".spec.network.access", "What the container may reach."),
      column("Phase", ".status.phase", "Phase of the workload."),
      column("Reason", ".status.reason", "Why it is not ready."),
      { ...column("Build", ".status.build.state", "State of the image build."), priority: 1 },
      age,
    ],
  }),
  definition({
    resource: pools,
    shortName: "tp",
    description: "Warm pods of one workload.",
    spec: poolSpecSchema,
    status: poolStatusSchema,
    metadata: labelValueName,
    scale: {
      specReplicasPath: ".spec.size",
      statusReplicasPath: ".status.ready",
      labelSelectorPath: ".status.selector",
    },
    columns: [
      column("Workload", ".spec.workloadRef", "The workload of the pods."),
      { ...column("Size", ".status.desired", "Number of pods that the operator aims for."), type: "integer" },
      { ...column("Ready", ".status.ready", "Pods that can be claimed."), type: "integer" },
      { ...column("Warming", ".status.warming", "Pods that are starting."), type: "integer" },
      column("Phase", ".status.phase", "Phase of the pool."),
      column("Reason", ".status.reason", "Why it is not full."),
      { ...column("Max", ".spec.maxSize", "Most pods of a pool that scales by itself."), type: "integer", priority: 1 },
      { ...column("Because", ".status.scaling.reason", "What decides the size of such a pool."), priority: 1 },
      age,
    ],
  }),
  definition({
    resource: claims,
    shortName: "tc",
    description: "A tenant's lease on an instance of a workload.",
    spec: claimSpecSchema,
    status: claimStatusSchema,
    selectable: [".spec.tenantId", ".spec.workloadRef", ".status.phase"],
    columns: [
      column("Tenant", ".spec.tenantId", "The tenant."),
      column("Workload", ".spec.workloadRef", "The workload."),
      column("Phase", ".status.phase", "Phase of the claim."),
      column("Source", ".status.source", "How the instance was found."),
      column("Instance", ".status.instanceId", "The pod."),
      column("Reason", ".status.reason", "Why it is not active."),
      { ...column("Address", ".status.endpoint.host", "Address of the pod."), priority: 1 },
      // A column of type date shows how long ago a time was, and nothing of the future.
      { ...column("Ends", ".status.expiresAt", "When it is released even while it is in use."), priority: 1 },
      age,
    ],
  }),
  definition({
    resource: triggers,
    shortName: "tt",
    description: "Connects an external event, such as a webhook call, to a claim.",
    spec: triggerSpecSchema,
    status: triggerStatusSchema,
    metadata: labelValueName,
    isCheckedWhole: true,
    columns: [
      column("Type", ".spec.type", "The adapter."),
      column("Workload", ".spec.workloadRef", "The workload that is claimed."),
      column("Phase", ".status.phase", "Whether the gateway serves it."),
      { ...column("Driver", ".spec.driver", "The protocol to the container; plain HTTP if empty."), priority: 1 },
      // Its detail is a sentence, and so as wide as the rest: describe shows it.
      column("Reason", '.status.conditions[?(@.type=="Ready")].reason', "Why the gateway serves it or not."),
      age,
    ],
  }),
];

function column(name: string, jsonPath: string, description: string): PrinterColumn {
  return { name, type: "string", jsonPath, description };
}

function definition(kind: Definition): CustomResourceDefinition {
  const { group, version, plural, kind: kindName } = kind.resource;
  const singular = kindName.toLowerCase();
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}`, labels: { "app.kubernetes.io/part-of": "tenancy" } },
    spec: {
      group,
      scope: "Namespaced",
      names: {
        kind: kindName,
        listKind: `${kindName}List`,
        plural,
        singular,
        shortNames: [kind.shortName],
        categories: ["tenancy"],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {}, ...(kind.scale !== undefined && { scale: kind.scale }) },
          additionalPrinterColumns: kind.columns,
          ...(kind.selectable !== undefined && {
            selectableFields: kind.selectable.map((jsonPath) => ({ jsonPath })),
          }),
          schema: { openAPIV3Schema: rootSchema(kind) },
        },
      ],
    },
  };
}

function rootSchema({ description, spec, status, metadata, isCheckedWhole = false }: Definition): JsonSchema {
  return {
    type: "object",
    description,
    required: ["spec"],
    properties: {
      apiVersion: { type: "string", description: "API version of this kind." },
      kind: { type: "string", description: "Name of this kind." },
      metadata: metadata ?? { type: "object" },
      spec: isCheckedWhole ? readablePatterns(plainSchema(spec)) : plainSchema(spec),
      status: plainSchema(status),
    },
  };
}
