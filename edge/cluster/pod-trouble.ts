import type { Pod } from "../../crds/kubernetes.ts";

/** Normal waiting reasons of a container. */
const ordinary: ReadonlySet<string> = new Set(["ContainerCreating", "PodInitializing", "Completed"]);

/**
 * What keeps a pod from working: Kubernetes' own reason, such as `CrashLoopBackOff`, `OOMKilled`, `Unschedulable` or
 * `Evicted`; undefined if nothing does.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-states
 */
export function podReason({ status }: Pick<Pod, "status">): string | undefined {
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

/** Number of restarts of the pod's containers. */
export function restartsOf({ status }: Pick<Pod, "status">): number {
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return all.reduce((sum, { restartCount }) => sum + restartCount, 0);
}
