import type { PodSpec } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Scheduling } from "../../crds/scheduling.ts";
import type { Workload } from "../../crds/workload.ts";

/** https://kubernetes.io/docs/reference/labels-annotations-taints/#topologykubernetesiozone */
export const ZONE = "topology.kubernetes.io/zone";
const HOST = "kubernetes.io/hostname";

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

/** Where one pod of a workload should run. No pod is replaced for it. */
export interface Placement {
  /** Of a pod for a claim that prefers a zone. */
  readonly zone?: string | undefined;
  /**
   * Of a warm pod. The scheduler leaves nodes out that lack a label which a spread names, so without any zones it would
   * not spread over nodes either.
   */
  readonly pool?: { readonly name: string; readonly hasZones: boolean } | undefined;
}

/**
 * The scheduling of one pod. Warm pods of a pool are spread over zones and nodes, if the workload itself says nothing
 * of where its pods are to one another. Only warm pods count, so that claims find one in each zone.
 */
export function placedAt(
  workload: Workload,
  { zone, pool }: Placement,
): Pick<PodSpec, "affinity" | "topologySpreadConstraints"> {
  const { affinity, topologySpreadConstraints } = schedulingOf(workload);
  const nodeAffinity = affinity?.nodeAffinity;
  const isOwn = (topologySpreadConstraints ?? affinity?.podAffinity ?? affinity?.podAntiAffinity) !== undefined;
  return {
    ...(zone !== undefined && {
      affinity: {
        ...affinity,
        nodeAffinity: {
          ...nodeAffinity,
          preferredDuringSchedulingIgnoredDuringExecution: [
            ...(nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []),
            { weight: 100, preference: { matchExpressions: [{ key: ZONE, operator: "In", values: [zone] }] } },
          ],
        },
      },
    }),
    ...(pool !== undefined &&
      !isOwn && {
        topologySpreadConstraints: [...(pool.hasZones ? [ZONE] : []), HOST].map((topologyKey) => ({
          ...{ maxSkew: 1, topologyKey, whenUnsatisfiable: "ScheduleAnyway" },
          labelSelector: { matchLabels: { [label.pool]: pool.name } },
        })),
      }),
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
