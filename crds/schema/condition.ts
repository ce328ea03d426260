import { type Static, Type } from "@sinclair/typebox";
import { mapList, stringEnum } from "./schema.ts";

const conditionSchema = Type.Object(
  {
    type: Type.String({ description: "What the condition is about, such as Ready.", minLength: 1, maxLength: 316 }),
    status: stringEnum(["True", "False", "Unknown"], { description: "Whether it holds." }),
    observedGeneration: Type.Optional(Type.Integer({ description: "Generation of the spec that it is about." })),
    lastTransitionTime: Type.String({ description: "When the status last changed, RFC 3339.", format: "date-time" }),
    reason: Type.String({ description: "One word in CamelCase for programs.", minLength: 1, maxLength: 1024 }),
    message: Type.String({ description: "A sentence for people.", maxLength: 32768 }),
  },
  { description: "One aspect of the state." },
);

/** One condition of a status (Kubernetes API conventions, "Typical status properties"). */
export type Condition = Static<typeof conditionSchema>;

/** The conditions of a status, one of each type. */
export const conditionsSchema = Type.Array(conditionSchema, {
  description: "Aspects of the state, one of each type.",
  maxItems: 16,
  ...mapList("type"),
});

/** A condition as it is now, without its dates. */
export type ConditionNow = Pick<Condition, "type" | "status" | "reason" | "message">;

/**
 * Dates conditions as they are now by those of before: `lastTransitionTime` moves only with the status, so that what
 * has not changed is equal to what was written before.
 *
 * @param options.generation of the spec that they are about
 */
export function nextConditions(
  former: readonly Condition[] | undefined,
  now: readonly ConditionNow[],
  { generation = 0 }: { generation: number | undefined },
): Condition[] {
  const time = new Date().toISOString();
  return now.map((condition) => {
    const before = former?.find(({ type }) => type === condition.type);
    const lastTransitionTime = before?.status === condition.status ? before.lastTransitionTime : time;
    return { ...condition, observedGeneration: generation, lastTransitionTime };
  });
}
