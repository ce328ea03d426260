import { isPodReady, programContainer, programStatus } from "../../crds/claims/claim-pod.ts";
import type { ContainerStatus, Pod, PodStatus } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { endFailure, type Failure, programFailure, pullFailure } from "./start-failure.ts";

/** The state of a pod until its tenant gets it. */
export type PodState =
  | { state: "ready" }
  /**
   * It may still become ready. `since` is when a node got the pod: the limit for the start counts from then. `end` is
   * how the workload's program ended, if the kubelet is about to start it again.
   */
  | { state: "starting"; since: string | undefined; message: string; end?: Failure }
  /** No node can take it yet. This has no time limit. */
  | { state: "unschedulable"; message: string }
  /** It will not become ready by itself. `fix` is the field or setting to change; it follows the verb "fix". */
  | { state: "failed"; reason: "ImagePullFailed" | "CrashLooping"; message: string; fix: string }
  /** The kubelet refused to start an image that runs as root under `runAsNonRoot`. */
  | { state: "needs-root" }
  /** It is being deleted or has ended, for example by an eviction or a shutdown of its node. */
  | { state: "lost"; message: string };

// A container may end once because of a race at its start; the third end shows that the program itself fails.
const CRASHES_UNTIL_LOOPING = 2;

/**
 * The state of a pod, from its conditions and container statuses.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
 */
export function podState(pod: Pod): PodState {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined) return { state: "lost", message: `pod ${metadata.name} was deleted` };
  if (status?.phase === "Failed" || status?.phase === "Succeeded") {
    return { state: "lost", message: `pod ${metadata.name} ended (${endOf(status)})` };
  }
  if (isPodReady(pod)) return { state: "ready" };

  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") {
    return { state: "unschedulable", message: `no node can take the pod yet: ${shortage(pod, scheduled.message)}` };
  }
  for (const container of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
    const problem = containerProblem(pod, container);
    if (problem !== undefined) return problem;
  }
  const end = programEnd(pod);
  return {
    ...{ state: "starting", since: scheduled?.lastTransitionTime, message: waitingMessage(pod) },
    ...(end !== undefined && { end }),
  };
}

/**
 * Why a pod has failed and what to fix.
 *
 * @param config.imagePullHint the administrator's hint for images that cannot be pulled
 */
export function failureMessage(
  { reason, message, fix }: Extract<PodState, { state: "failed" }>,
  { imagePullHint }: { imagePullHint: string | undefined },
): string {
  const hint = reason === "ImagePullFailed" && imagePullHint !== undefined ? ` (${imagePullHint})` : "";
  return `${message}${hint}: fix ${fix}`;
}

function containerProblem(pod: Pod, container: ContainerStatus): PodState | undefined {
  const waiting = container.state?.waiting;
  const detail = waiting?.message ?? "";
  const notStarted = programFailure(pod, container);
  if (notStarted !== undefined) return { state: "failed", reason: "CrashLooping", ...notStarted };
  switch (waiting?.reason) {
    case "ImagePullBackOff":
    case "ErrImageNeverPull":
    case "InvalidImageName":
      return { state: "failed", reason: "ImagePullFailed", ...pullFailure(container, detail || waiting.reason) };
    case "CreateContainerConfigError":
      return detail.includes("runAsNonRoot") ? { state: "needs-root" } : undefined;
    case "CrashLoopBackOff": {
      if ((container.restartCount ?? 0) < CRASHES_UNTIL_LOOPING) return undefined;
      const end = endFailure(pod, container);
      const message = `the ${nameOf(container)} keeps exiting${end === undefined ? "" : `; last: ${end.message}`}`;
      return { state: "failed", reason: "CrashLooping", message, fix: end?.fix ?? "the workload's spec.entrypoint" };
    }
    default:
      return undefined;
  }
}

function nameOf({ name }: ContainerStatus): string {
  return name === WORKLOAD_CONTAINER ? "container" : `operator's own container "${name}"`;
}

/** Whether the node ended the pod for a reason outside the pod. */
export function endedByNode({ status }: Pod): boolean {
  return status?.phase === "Failed" && status.reason !== undefined && !exceedsOwnLimit(status);
}

function exceedsOwnLimit({ reason, message = "" }: PodStatus): boolean {
  return reason === "Evicted" && /exceed(s|ed) [^.]*limit/.test(message);
}

/** How the workload's program has ended; undefined while it runs. */
function programEnd(pod: Pod): Failure | undefined {
  const own = programStatus(pod);
  return own === undefined || own.state?.running !== undefined ? undefined : endFailure(pod, own);
}

/** Why a pod has ended for good. */
function endOf(status: PodStatus): string {
  const { phase, reason, message } = status;
  const why = [reason, message?.trim()].filter(Boolean).join(": ") || phase;
  return exceedsOwnLimit(status) ? `${why}: its files take more than the workload's spec.resources.diskGb` : `${why}`;
}

/** The scheduler's message, without its part on preemption, and the pod's requests of what is short. */
function shortage(pod: Pod, said = "no reason given"): string {
  const why = said.replace(/,? *(no new claims to deallocate, *)?preemption: .*$/s, "").replace(/[. ]+$/, "");
  const { limits, requests = {} } = programContainer(pod.spec)?.resources ?? {};
  const { cpu, memory, "ephemeral-storage": disk, ...others } = requests;
  const cpuField = limits?.cpu?.endsWith("m") ? "milliCpus" : "vcpus";
  const asked = [
    /Insufficient cpu/.test(why) && cpu !== undefined && `${cpu} CPU by spec.resources.${cpuField}`,
    /Insufficient memory/.test(why) && memory !== undefined && `${megabytes(memory)} memory by spec.resources.memoryMb`,
    /Insufficient ephemeral-storage/.test(why) && disk !== undefined && `${disk} disk by spec.resources.diskGb`,
    ...Object.entries(others).map(
      ([name, count]) => why.includes(`Insufficient ${name}`) && `${count} ${name} by spec.resources.extended`,
    ),
  ].filter(Boolean);
  const chosen = NODE_FIELDS.flatMap(([words, field]) => (words.test(why) ? [field] : []));
  return [
    why,
    ...(asked.length === 0 ? [] : [`the pod asks for ${asked.join(", ")} of its workload`]),
    ...(chosen.length === 0 ? [] : [`fields of its workload that choose nodes: ${chosen.join(", ")}`]),
  ].join("; ");
}

/** What the scheduler says of nodes that do not match, and the workload's fields that it is about. */
const NODE_FIELDS: readonly [RegExp, string][] = [
  [/untolerated taint/, "spec.scheduling.tolerations"],
  [/node affinity\/selector/, "spec.scheduling.nodeSelector and affinity.nodeAffinity"],
  [/pod (anti-)?affinity rules/, "spec.scheduling.affinity"],
  [/pod topology spread constraints/, "spec.scheduling.topologySpreadConstraints"],
];

/** A pod's memory request, in the unit of workloads: the pod has it in Ki. */
function megabytes(quantity: string): string {
  const kibibytes = /^(\d+)Ki$/.exec(quantity)?.[1];
  return kibibytes === undefined ? quantity : `${Math.ceil(Number(kibibytes) / 1024)} MB`;
}

const DEFAULT_SCHEDULER = "default-scheduler";

/** What a starting pod waits for, from its status alone. */
function waitingMessage(pod: Pod): string {
  const { status, spec } = pod;
  const { schedulerName = DEFAULT_SCHEDULER } = spec;
  if (schedulerName !== DEFAULT_SCHEDULER && spec.nodeName === undefined) {
    return `no scheduler named "${schedulerName}" has taken the pod yet: check that it runs, or change spec.scheduling.schedulerName of its workload`;
  }
  const init = status?.initContainerStatuses?.find(({ state }) => state?.terminated?.exitCode !== 0);
  const own = programStatus(pod) ?? status?.containerStatuses?.[0];
  const held = [init, own].find((container) => isBlocked(container));
  if (held !== undefined) {
    const waiting = held.state?.waiting;
    if (waiting?.reason === "ErrImagePull")
      return `${pullFailure(held, waiting.message ?? waiting.reason).message}; it is tried again`;
    const end = (held.restartCount > 0 || held.state?.terminated !== undefined) && endFailure(pod, held);
    if (end) return `the ${nameOf(held)} has ended and is started again; last: ${end.message}`;
    return `the ${nameOf(held)} waits: ${[waiting?.reason, waiting?.message].filter(Boolean).join(": ")}`;
  }
  if (own?.state?.running !== undefined) return "the container runs, and its health check has not passed yet";
  return "the pod is being set up";
}

/** Whether a container has ended, or waits for something else than the containers before it. */
function isBlocked(container: ContainerStatus | undefined): container is ContainerStatus {
  const { waiting, terminated } = container?.state ?? {};
  if (terminated !== undefined) return true;
  return waiting !== undefined && waiting.reason !== "ContainerCreating" && waiting.reason !== "PodInitializing";
}
