import type { PodSpec } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Scheduling } from "../../crds/scheduling.ts";
import type { Workload } from "../../crds/workload.ts";

type PodAffinity = NonNullable<NonNullable<Scheduling["affinity"]>["podAffinity"]>;
type PodTerm = NonNullable<PodAffinity["requiredDuringSchedulingIgnoredDuringExecution"]>[number];
type Scheduled = Pick<
  PodSpec,
  "nodeSelector" | "tolerations" | "affinity" | "topologySpreadConstraints" | "priorityClassName" | "schedulerName"
>;

/**
 * On which nodes a workload's pods run. Selectors of pods get one more requirement, so that other workloads' pods never
 * count. Takes the known fields one by one: a CRD of a later version may have more.
 */
export function schedulingOf({ metadata, spec }: Workload): Scheduled {
  const { nodeSelector, tolerations, affinity, priorityClassName, schedulerName } = spec.scheduling ?? {};
  const spread = spec.scheduling?.topologySpreadConstraints;
  const { nodeAffinity, podAffinity, podAntiAffinity } = affinity ?? {};
  const { name } = metadata;
  return {
    ...(nodeSelector !== undefined && { nodeSelector }),
    ...(tolerations !== undefined && { tolerations }),
    ...(affinity !== undefined && {
      affinity: {
        ...(nodeAffinity !== undefined && { nodeAffinity }),
        ...(podAffinity !== undefined && { podAffinity: toOwnPods(podAffinity, name) }),
        ...(podAntiAffinity !== undefined && { podAntiAffinity: toOwnPods(podAntiAffinity, name) }),
      },
    }),
    ...(spread !== undefined && {
      topologySpreadConstraints: spread.map((one) => ({ ...one, labelSelector: ownPods(name, one.labelSelector) })),
    }),
    ...(priorityClassName !== undefined && { priorityClassName }),
    ...(schedulerName !== undefined && { schedulerName }),
  };
}

function toOwnPods(given: PodAffinity, workload: string): PodAffinity {
  const {
    requiredDuringSchedulingIgnoredDuringExecution: required,
    preferredDuringSchedulingIgnoredDuringExecution: preferred,
  } = given;
  const own = ({ topologyKey, labelSelector }: PodTerm) => ({
    topologyKey,
    labelSelector: ownPods(workload, labelSelector),
  });
  return {
    ...(required !== undefined && { requiredDuringSchedulingIgnoredDuringExecution: required.map(own) }),
    ...(preferred !== undefined && {
      preferredDuringSchedulingIgnoredDuringExecution: preferred.map(({ weight, podAffinityTerm }) => ({
        weight,
        podAffinityTerm: own(podAffinityTerm),
      })),
    }),
  };
}

function ownPods(workload: string, given: PodTerm["labelSelector"]) {
  const requirement = { key: label.workload, operator: "In" as const, values: [workload] };
  return { ...given, matchExpressions: [...(given?.matchExpressions ?? []), requirement] };
}
