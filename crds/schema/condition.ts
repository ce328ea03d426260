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

/**
 * The conditions of an object that nobody has looked at, a default of the API server's: tools that wait for an object
 * take one without conditions for ready.
 */
export const notObserved: readonly Condition[] = [
  {
    type: "Ready",
    status: "Unknown",
    reason: "NotObserved",
    message:
      "No operator has looked at it yet. Check that operator and edge run, and that this is the namespace that they serve (TENANCY_NAMESPACE, tenancy by default).",
    lastTransitionTime: "1970-01-01T00:00:00Z",
  },
];

/** A condition as it is now, without its dates. */
export type ConditionNow = Pick<Condition, "type" | "status" | "reason" | "message">;

/** The types of {@link readiness}. */
export const READINESS: readonly string[] = ["Ready", "Reconciling", "Stalled"];

/**
 * `Ready`, and beside a `Ready` that is false either `Reconciling`, where the object gets there by itself, or `Stalled`,
 * where a person has to act. The latter two are there only while they hold
 * (https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md).
 */
export function readiness(
  state: "ready" | "reconciling" | "stalled",
  said: Pick<ConditionNow, "reason" | "message">,
): ConditionNow[] {
  if (state === "ready") return [{ type: "Ready", status: "True", ...said }];
  const type = state === "stalled" ? "Stalled" : "Reconciling";
  return [
    { type: "Ready", status: "False", ...said },
    { type, status: "True", ...said },
  ];
}

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
