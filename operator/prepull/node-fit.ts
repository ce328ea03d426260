import type { Node, PodSpec } from "../../crds/kubernetes.ts";

export type Scheduled = Pick<PodSpec, "nodeSelector" | "affinity" | "tolerations">;
type Required = NonNullable<
  NonNullable<NonNullable<PodSpec["affinity"]>["nodeAffinity"]>["requiredDuringSchedulingIgnoredDuringExecution"]
>;
type Requirement = NonNullable<Required["nodeSelectorTerms"][number]["matchExpressions"]>[number];

/**
 * Whether the scheduler may put a pod on a node, whatever room there is: by the node's labels, taints and name. A node
 * that takes no new pods, or that is not ready, has a taint for it.
 *
 * Follows https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
 */
export function fitsNode({ nodeSelector = {}, affinity, tolerations = [] }: Scheduled, node: Node): boolean {
  const { name, labels = {} } = node.metadata;
  if ((labels["kubernetes.io/os"] ?? "linux") !== "linux") return false;
  if (Object.entries(nodeSelector).some(([key, value]) => labels[key] !== value)) return false;
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  const isNear = terms?.some(({ matchExpressions = [], matchFields = [] }) => {
    // A term without requirements matches no node.
    if (matchExpressions.length + matchFields.length === 0) return false;
    return matchExpressions.every((one) => holds(one, labels[one.key])) && matchFields.every((one) => holds(one, name));
  });
  if (isNear === false) return false;
  return (node.spec?.taints ?? []).every(
    ({ key, value = "", effect }) =>
      effect === "PreferNoSchedule" ||
      tolerations.some(
        (one) =>
          (one.effect === undefined || one.effect === effect) &&
          (one.key === undefined || one.key === key) &&
          (one.operator === "Exists" || (one.value ?? "") === value),
      ),
  );
}

function holds({ operator, values = [] }: Requirement, found: string | undefined): boolean {
  switch (operator) {
    case "In":
      return found !== undefined && values.includes(found);
    case "NotIn":
      return found === undefined || !values.includes(found);
    case "Exists":
      return found !== undefined;
    case "DoesNotExist":
      return found === undefined;
    case "Gt":
      return wholeNumber(found) > wholeNumber(values[0]);
    case "Lt":
      return wholeNumber(found) < wholeNumber(values[0]);
    default:
      return false;
  }
}

/** NaN, which is neither greater nor less, for another text. */
function wholeNumber(text = ""): number {
  return /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
}
