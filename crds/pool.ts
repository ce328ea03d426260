import { type Static, Type } from "@sinclair/typebox";
import type { KubernetesObject } from "./kubernetes.ts";
import { conditionsSchema, notObserved } from "./schema/condition.ts";
import { pattern } from "./schema/patterns.ts";
import { rules, stringEnum } from "./schema/schema.ts";

/** The greatest size of a pool. */
const MOST = 10_000;
const DEFAULT_MIN_SIZE = 1;
const DEFAULT_SCALE_DOWN_AFTER_SECONDS = 600;
const DEFAULT_TARGET: PoolTarget = { hitRate: 99 };

/** The words of the rules that the schema's keywords cannot express, for CEL and for the API. */
export const poolWords = {
  size: "give exactly one of size, for a fixed number of pods, and maxSize, for a number that the operator chooses",
  scaling: "minSize, target, schedule and scaleDownAfterSeconds take effect only with maxSize: remove them, or size",
  target: "give exactly one of idlePercent, hitRate and p99Ms",
  minSize: "must not be greater than maxSize",
} as const;

const targetSchema = Type.Object(
  {
    idlePercent: Type.Optional(
      Type.Integer({
        description: "Warm pods, as a percentage of all pods of the workload, claimed ones included.",
        minimum: 1,
        maximum: 90,
      }),
    ),
    hitRate: Type.Optional(
      Type.Integer({ description: "Percentage of claims that find a warm pod.", minimum: 50, maximum: 100 }),
    ),
    p99Ms: Type.Optional(
      Type.Integer({
        description: "Milliseconds that 99 % of claims wait at most for a pod.",
        minimum: 1,
        maximum: 600_000,
      }),
    ),
  },
  {
    description: "What the size is chosen for: exactly one of idlePercent, hitRate and p99Ms; hitRate 99 when absent.",
    ...rules({
      rule: "[has(self.idlePercent), has(self.hitRate), has(self.p99Ms)].filter(given, given).size() == 1",
      message: poolWords.target,
    }),
  },
);

/** What the size of a pool that scales by itself is chosen for. */
export type PoolTarget = Static<typeof targetSchema>;

const scheduledSchema = Type.Object(
  {
    cron: Type.String({
      description: "From when on: five fields, such as 0 8 * * 1-5.",
      pattern: pattern.cron,
      maxLength: 256,
    }),
    timezone: Type.Optional(
      Type.String({
        description: "IANA name, such as Europe/Berlin; UTC when absent.",
        pattern: pattern.word,
        maxLength: 64,
      }),
    ),
    minSize: Type.Integer({ description: "Fewest warm pods from then on.", minimum: 0, maximum: MOST }),
  },
  { description: "A minSize that begins at the times of cron, and ends at the next time of any entry." },
);

/** An entry of `spec.schedule` of a pool. */
export type ScheduledMinSize = Static<typeof scheduledSchema>;

export const poolSpecSchema = Type.Object(
  {
    workloadRef: Type.String({
      description: "Name of the workload to keep ready.",
      pattern: pattern.subdomain,
      maxLength: 63,
    }),
    size: Type.Optional(
      Type.Integer({ description: "Number of warm pods to keep; instead of maxSize.", minimum: 0, maximum: MOST }),
    ),
    maxSize: Type.Optional(
      Type.Integer({
        description: "Most warm pods; the operator chooses how many. Instead of size.",
        minimum: 1,
        maximum: MOST,
      }),
    ),
    minSize: Type.Optional(
      Type.Integer({ description: "With maxSize: fewest warm pods; 1 when absent.", minimum: 0, maximum: MOST }),
    ),
    target: Type.Optional(targetSchema),
    schedule: Type.Optional(
      Type.Array(scheduledSchema, {
        description: "With maxSize: times from which on minSize is greater.",
        maxItems: 32,
      }),
    ),
    scaleDownAfterSeconds: Type.Optional(
      Type.Integer({
        description: "With maxSize: seconds in which fewer pods are needed until the pool shrinks; 600 when absent.",
        minimum: 1,
        maximum: 86_400,
      }),
    ),
    maxFillConcurrency: Type.Optional(
      Type.Integer({
        description: "Maximum number of pods that start at the same time.",
        minimum: 1,
        maximum: 1000,
        default: 5,
      }),
    ),
  },
  {
    description: "Warm pods of one workload: a fixed number of them, or as many as its claims need.",
    // No oneOf: a server checks no rule, and so says none of its words, after a field that a oneOf requires is missing.
    ...rules(
      { rule: "has(self.size) != has(self.maxSize)", message: poolWords.size },
      {
        rule: "has(self.maxSize) || !(has(self.minSize) || has(self.target) || has(self.schedule) || has(self.scaleDownAfterSeconds))",
        message: poolWords.scaling,
      },
      {
        rule: "!has(self.maxSize) || !has(self.minSize) || self.minSize <= self.maxSize",
        message: `spec.minSize: ${poolWords.minSize}`,
      },
      {
        rule: "!has(self.maxSize) || !has(self.schedule) || self.schedule.all(entry, entry.minSize <= self.maxSize)",
        message: `spec.schedule[].minSize: ${poolWords.minSize}`,
      },
    ),
  },
);

const scalingSchema = Type.Object(
  {
    reason: Type.String({ description: "One word for programs: what decides the size.", maxLength: 256 }),
    message: Type.String({ description: "A sentence for people.", maxLength: 1024 }),
    needed: Type.Integer({ description: "Pods that spec.target needs, before any limit.", minimum: 0 }),
    minSize: Type.Integer({ description: "Fewest pods now, by spec.minSize and spec.schedule.", minimum: 0 }),
    arrivalsPerMinute: Type.Number({ description: "Claims of the workload, in the last hour.", minimum: 0 }),
    refillSeconds: Type.Optional(
      Type.Number({ description: "Seconds from a pod's creation to its readiness.", minimum: 0 }),
    ),
  },
  {
    description: "Why the operator aims for this size; absent for a pool of fixed size. Written when the size changes.",
  },
);

/** Why a pool that scales by itself has its size. */
export type PoolScaling = Static<typeof scalingSchema>;

export const poolStatusSchema = Type.Object(
  {
    phase: stringEnum(["Filling", "Ready", "Degraded", "Error"], {
      description:
        "Filling until as many pods are ready as it aims for, Degraded while pods keep failing or are refused, Error if no pod can be made.",
      default: "Filling",
    }),
    ready: Type.Integer({ description: "Pods that can be claimed.", minimum: 0, default: 0 }),
    warming: Type.Integer({ description: "Pods that are starting.", minimum: 0, default: 0 }),
    desired: Type.Optional(Type.Integer({ description: "Number of pods that the operator aims for.", minimum: 0 })),
    scaling: Type.Optional(scalingSchema),
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

/** The settings of a pool that scales by itself, with their defaults. */
export type ScalingSpec = Required<Pick<PoolSpec, "maxSize" | "minSize" | "target" | "scaleDownAfterSeconds">> & {
  readonly schedule: readonly ScheduledMinSize[];
};

/** Undefined for a pool of fixed size. */
export function scalingOf({ spec }: Pick<Pool, "spec">): ScalingSpec | undefined {
  const { size, maxSize, minSize = DEFAULT_MIN_SIZE, target = DEFAULT_TARGET, schedule = [] } = spec;
  const { scaleDownAfterSeconds = DEFAULT_SCALE_DOWN_AFTER_SECONDS } = spec;
  if (maxSize === undefined || size !== undefined) return undefined;
  return { maxSize, minSize: Math.min(minSize, maxSize), target, schedule, scaleDownAfterSeconds };
}

/** The number of pods that a pool aims for, as far as its object shows it. */
export function desiredSize({ spec, status }: { spec: PoolSpec; status?: Pick<PoolStatus, "desired"> }): number {
  return spec.size ?? status?.desired ?? scalingOf({ spec })?.minSize ?? 0;
}
