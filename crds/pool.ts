import { type Static, Type } from "@sinclair/typebox";
import type { KubernetesObject } from "./kubernetes.ts";
import { conditionsSchema, notObserved } from "./schema/condition.ts";
import { pattern } from "./schema/patterns.ts";
import { stringEnum } from "./schema/schema.ts";

export const poolSpecSchema = Type.Object(
  {
    workloadRef: Type.String({
      description: "Name of the workload to keep ready.",
      pattern: pattern.subdomain,
      maxLength: 63,
    }),
    size: Type.Integer({ description: "Number of warm pods to keep.", minimum: 0, maximum: 10000 }),
    maxFillConcurrency: Type.Optional(
      Type.Integer({
        description: "Maximum number of pods that start at the same time.",
        minimum: 1,
        maximum: 1000,
        default: 5,
      }),
    ),
  },
  { description: "A fixed number of warm pods of one workload." },
);

export const poolStatusSchema = Type.Object(
  {
    phase: stringEnum(["Filling", "Ready", "Degraded", "Error"], {
      description:
        "Filling until size pods are ready, Degraded while pods keep failing or are refused, Error if no pod can be made.",
      default: "Filling",
    }),
    ready: Type.Integer({ description: "Pods that can be claimed.", minimum: 0, default: 0 }),
    warming: Type.Integer({ description: "Pods that are starting.", minimum: 0, default: 0 }),
    desired: Type.Optional(Type.Integer({ description: "Number of pods that the operator aims for.", minimum: 0 })),
    selector: Type.Optional(
      Type.String({ description: "Label selector of the pool's pods, for the scale subresource.", maxLength: 1024 }),
    ),
    reason: Type.Optional(Type.String({ description: "One word for programs.", maxLength: 256 })),
    message: Type.Optional(Type.String({ description: "A sentence for people.", maxLength: 32768 })),
    observedGeneration: Type.Optional(
      Type.Integer({ description: "Generation of the spec that this status describes." }),
    ),
    conditions: Type.Optional(conditionsSchema),
  },
  {
    description: "The operator's result.",
    default: { phase: "Filling", ready: 0, warming: 0, conditions: notObserved },
  },
);

/** Static type of {@link poolSpecSchema}, before defaults. */
export type PoolSpec = Static<typeof poolSpecSchema>;

/** Static type of {@link poolStatusSchema}. */
export type PoolStatus = Static<typeof poolStatusSchema>;

/** A TenancyPool. */
export interface Pool extends KubernetesObject {
  spec: PoolSpec;
  status?: PoolStatus;
}
