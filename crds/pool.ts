import { type Static, Type } from "@sinclair/typebox";
import type { KubernetesObject } from "./kubernetes.ts";
import { conditionsSchema, notObserved } from "./schema/condition.ts";
import { pattern } from "./schema/patterns.ts";
import { stringEnum } from "./schema/schema.ts";

/** `spec` of a pool. */
export const poolSpecSchema = Type.Object(
  {
    workloadRef: Type.String({
      description: "Name of the workload to pre-warm.",
      pattern: pattern.subdomain,
      maxLength: 63,
    }),
    size: Type.Integer({ description: "Number of pre-warmed pods kept.", minimum: 0, maximum: 10000 }),
    maxFillConcurrency: Type.Optional(
      Type.Integer({
        description: "How many pods are started at once while filling.",
        minimum: 1,
        maximum: 1000,
        default: 5,
      }),
    ),
  },
  { description: "A fixed number of pre-warmed pods of one workload." },
);

/** `status` of a pool. */
export const poolStatusSchema = Type.Object(
  {
    phase: stringEnum(["Filling", "Ready", "Degraded", "Error"], {
      description:
        "Filling until size pods are ready, Degraded while pods keep failing or are refused, Error when none can be made.",
      default: "Filling",
    }),
    ready: Type.Integer({ description: "Pods that can be claimed.", minimum: 0, default: 0 }),
    warming: Type.Integer({ description: "Pods that are starting.", minimum: 0, default: 0 }),
    desired: Type.Optional(Type.Integer({ description: "Pods that the operator is aiming for.", minimum: 0 })),
    selector: Type.Optional(
      Type.String({ description: "Label selector of the pool's pods, for the scale subresource.", maxLength: 1024 }),
    ),
    reason: Type.Optional(Type.String({ description: "One word for programs.", maxLength: 256 })),
    message: Type.Optional(Type.String({ description: "A sentence for people.", maxLength: 32768 })),
    observedGeneration: Type.Optional(Type.Integer({ description: "Generation of the spec that this is about." })),
    conditions: Type.Optional(conditionsSchema),
  },
  {
    description: "What the operator found.",
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
