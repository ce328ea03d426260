import type { Pod } from "../../crds/kubernetes.ts";

/** A container waits for its turn with these. */
const ordinary: ReadonlySet<string> = new Set(["ContainerCreating", "PodInitializing", "Completed"]);

/**
 * What keeps a pod from its work, in Kubernetes' own word, such as `CrashLoopBackOff`, `OOMKilled`, `Unschedulable` or
 * `Evicted`; undefined where nothing does.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-states
 */
export function podReason({ status }: Pod): string | undefined {
  if (status?.reason !== undefined) return status.reason;
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") return scheduled.reason ?? "Unschedulable";
  for (const { state } of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
    const { waiting, terminated } = state ?? {};
    const reason = waiting?.reason ?? terminated?.reason;
    if (reason !== undefined && !ordinary.has(reason)) return reason;
  }
  return undefined;
}

/** How often the pod's containers were started again. */
export function restartsOf({ status }: Pod): number {
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return all.reduce((sum, { restartCount }) => sum + restartCount, 0);
}
