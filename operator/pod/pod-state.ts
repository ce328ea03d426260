import { podAddress } from "../../crds/claim-pod.ts";
import type { ContainerStatus, Pod } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/workload-container.ts";

/** Where a pod stands on its way to its tenant. */
export type PodState =
  | { state: "ready" }
  /** It may still become ready; `since` is when it was given to a node, from which its start is timed. */
  | { state: "starting"; since: string | undefined; message: string }
  /** No node can take it yet, however long that lasts (spec.md, section 3.2). */
  | { state: "unschedulable"; message: string }
  /** It will not become ready by itself. */
  | { state: "failed"; reason: "ImagePullFailed" | "CrashLooping"; message: string }
  /** The kubelet refused to start an image that runs as root under `runAsNonRoot`. */
  | { state: "needs-root" }
  /** It is going, or has ended: evicted, its node shut down, or deleted. */
  | { state: "lost"; message: string };

// A container that ended once may have raced something at its start; the third end shows that it is its own doing.
const CRASHES_UNTIL_LOOPING = 2;

/** Judges a pod by its conditions and container statuses, https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/. */
export function podState(pod: Pod): PodState {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined) return { state: "lost", message: `pod ${metadata.name} was deleted` };
  if (status?.phase === "Failed" || status?.phase === "Succeeded") {
    const why = [status.reason, status.message].filter(Boolean).join(": ") || status.phase;
    return { state: "lost", message: `pod ${metadata.name} ended (${why})` };
  }
  const condition = (type: string) => status?.conditions?.find((candidate) => candidate.type === type);
  if (condition("Ready")?.status === "True" && podAddress(pod) !== undefined) return { state: "ready" };

  const scheduled = condition("PodScheduled");
  if (scheduled?.status === "False") {
    return {
      state: "unschedulable",
      message: `no node can take the pod yet: ${scheduled.message ?? "no reason given"}`,
    };
  }
  for (const container of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
    const problem = containerProblem(container);
    if (problem !== undefined) return problem;
  }
  const own = status?.containerStatuses?.find((container) => container.name === WORKLOAD_CONTAINER);
  return { state: "starting", since: scheduled?.lastTransitionTime, message: waitingMessage(own) };
}

/** What is wrong with a pod that has failed, with what whoever runs the operator has to say of images that cannot be pulled. */
export function failureMessage(
  { reason, message }: Extract<PodState, { state: "failed" }>,
  { imagePullHint }: { imagePullHint: string | undefined },
): string {
  return reason === "ImagePullFailed" && imagePullHint !== undefined ? `${message} (${imagePullHint})` : message;
}

function containerProblem(container: ContainerStatus): PodState | undefined {
  const waiting = container.state?.waiting;
  const detail = waiting?.message ?? "";
  switch (waiting?.reason) {
    case "ImagePullBackOff":
    case "ErrImageNeverPull":
    case "InvalidImageName":
      return {
        state: "failed",
        reason: "ImagePullFailed",
        message: `image ${container.image} cannot be pulled: ${detail || waiting.reason}`,
      };
    case "CreateContainerConfigError":
      return detail.includes("runAsNonRoot") ? { state: "needs-root" } : undefined;
    case "CrashLoopBackOff":
      if ((container.restartCount ?? 0) < CRASHES_UNTIL_LOOPING) return undefined;
      return {
        state: "failed",
        reason: "CrashLooping",
        message: `the container ends again and again${lastEnd(container)}`,
      };
    default:
      return undefined;
  }
}

function lastEnd(container: ContainerStatus): string {
  const end = container.lastState?.terminated;
  if (end === undefined) return "";
  return `: last with exit code ${end.exitCode}${end.message ? ` (${end.message.trim()})` : end.reason ? ` (${end.reason})` : ""}`;
}

function waitingMessage(container: ContainerStatus | undefined): string {
  const waiting = container?.state?.waiting;
  if (waiting !== undefined)
    return `the container waits: ${[waiting.reason, waiting.message].filter(Boolean).join(": ")}`;
  if (container?.state?.running !== undefined) return "the container runs, and its health check has not passed yet";
  return "the pod is being set up";
}
