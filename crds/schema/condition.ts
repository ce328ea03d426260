import { type Static, Type } from "@sinclair/typebox";
import { mapList, stringEnum } from "./schema.ts";

const conditionSchema = Type.Object(
  {
    type: Type.String({ description: "Aspect of the state, such as Ready.", minLength: 1, maxLength: 316 }),
    status: stringEnum(["True", "False", "Unknown"], { description: "Whether the condition holds." }),
    observedGeneration: Type.Optional(Type.Integer({ description: "Generation of the spec that it describes." })),
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
 * The initial conditions of an object, set by the API server as a default: tools that wait for an object take one
 * without conditions for ready.
 */
export const notObserved: readonly Condition[] = [
  {
    type: "Ready",
    status: "Unknown",
    reason: "NotObserved",
    message:
      "No operator has reconciled it yet. Check that operator and edge are running, and that they serve this namespace (TENANCY_NAMESPACE, tenancy by default).",
    lastTransitionTime: "1970-01-01T00:00:00Z",
  },
];

/** A current condition, without its dates. */
export type ConditionNow = Pick<Condition, "type" | "status" | "reason" | "message">;

/** The types of {@link readiness}. */
export const READINESS: readonly string[] = ["Ready", "Reconciling", "Stalled"];

/**
 * `Ready`, and beside a false `Ready` either `Reconciling`, if the object will get there by itself, or `Stalled`, if a
 * person must act. The latter two exist only while they hold
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
 * Adds dates to current conditions, given the previous ones: `lastTransitionTime` changes only with the status, so that
 * an unchanged condition equals the stored one.
 *
 * @param options.generation of the spec that they describe
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
