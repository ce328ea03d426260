import type { Claim } from "../claim.ts";
import type { Container, ContainerStatus, Pod, PodSpec } from "../kubernetes.ts";
import { annotation, label, WORKLOAD_CONTAINER } from "../labels.ts";

/**
 * Conditions that show that the pod's sandbox, and with it its address, exists; the second is the name before
 * Kubernetes 1.28.
 */
export const SANDBOX_CONDITIONS: readonly string[] = ["PodReadyToStartContainers", "PodHasNetwork"];

/** A pod whose `spec` may not have been read. */
type WithoutSpec = Omit<Pod, "spec">;

/**
 * The current address of a pod; undefined if it has none, or may have lost it.
 *
 * `status.podIP` alone is not enough. The kubelet continues to show the address of a removed sandbox until the next one
 * exists, and that of a pod that has ended, while the network plugin assigns it to other pods. A server that does not
 * report sandboxes reports containers, which end with their sandbox.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-has-network
 */
export function podAddress(pod: WithoutSpec): string | undefined {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined || status?.podIP === undefined || status.podIP === "") return undefined;
  if (status.phase === "Succeeded" || status.phase === "Failed") return undefined;
  const isTrue = (types: readonly string[]): boolean | undefined => {
    const found = status.conditions?.find(({ type }) => types.includes(type));
    return found && found.status === "True";
  };
  const runs = isProgramRunning(pod) || isTrue(["Ready"]) === true;
  return (isTrue(SANDBOX_CONDITIONS) ?? runs) ? status.podIP : undefined;
}

/** The container with the workload's program. */
export function programContainer({ containers }: PodSpec): Container | undefined {
  return containers.find(({ name }) => name === WORKLOAD_CONTAINER);
}

/** The state of the container with the workload's program; undefined before a kubelet has reported it. */
export function programStatus({ status }: WithoutSpec): ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === WORKLOAD_CONTAINER);
}

/** Whether the workload's program runs now, ready or not. */
export function isProgramRunning(pod: WithoutSpec): boolean {
  return programStatus(pod)?.state?.running !== undefined;
}

/** Whether a pod's program is ready, at a current address of the pod. */
export function isPodReady(pod: WithoutSpec): boolean {
  const ready = pod.status?.conditions?.find(({ type }) => type === "Ready");
  return ready?.status === "True" && podAddress(pod) !== undefined;
}

/**
 * Identifies the current run of a pod's program if no probe checks it; undefined if a probe does, or if it is not
 * running.
 */
export function unprobedRun(pod: Pod): string | undefined {
  const program = programContainer(pod.spec);
  return program === undefined || (program.readinessProbe ?? program.startupProbe) !== undefined
    ? undefined
    : containerRun(pod);
}

/** Identifies the current run of a pod's container; undefined if it is not running. */
export function containerRun(pod: WithoutSpec): string | undefined {
  const { state, restartCount = 0 } = programStatus(pod) ?? {};
  return state?.running === undefined ? undefined : `${restartCount}@${state.running.startedAt}`;
}

/**
 * Whether a warm pod can be given to a claim: it is Ready and, if no probe checks its program, the operator has seen
 * this run last long enough. Pods labelled by an older operator do not name the run.
 */
export function isWarm(pod: Pod): boolean {
  if (!isPodReady(pod)) return false;
  const run = unprobedRun(pod);
  const proven = pod.metadata.annotations?.[annotation.provenRun];
  return run === undefined || (pod.metadata.labels?.[label.poolStatus] === "ready" && (proven ?? run) === run);
}

/** The current endpoint of a pod's program, if any. */
export function podEndpoint(pod: Pod): { host: string; port: number } | undefined {
  const host = podAddress(pod);
  const port = programContainer(pod.spec)?.ports?.[0]?.containerPort;
  return host === undefined || port === undefined ? undefined : { host, port };
}

/**
 * Whether the claim's pod was destroyed on request. The claim then keeps its phase and gets no other pod until it is
 * claimed again.
 */
export function isDestroyed({ metadata, status }: Claim): boolean {
  return status?.instanceId !== undefined && metadata.annotations?.[annotation.destroyed] === status.instanceId;
}

/**
 * Whether the pod is exactly the one in the claim's status. Names of cold pods are derived from their claims, so a
 * leader with a stale watch can create a pod with the name of a deleted one: it contains nothing of the tenant.
 */
export function isShown({ metadata }: Pod, { status }: Claim): boolean {
  if (metadata.name !== status?.instanceId) return false;
  // Claims that an older operator made Active have no uid.
  return status.instanceUid === undefined || status.instanceUid === metadata.uid;
}

/** Prefix of the init container's termination message, which identifies the pod's overlay directories. */
export const OVERLAY_ID_MESSAGE = "overlay ";

/** Identifies a pod's overlay directories; undefined before they exist, and if there are none. */
export function overlayIdOf({ status }: Pod): string | undefined {
  const messages = status?.initContainerStatuses?.map(({ state }) => state?.terminated?.message ?? "") ?? [];
  const told = messages.find((message) => message.startsWith(OVERLAY_ID_MESSAGE));
  return told?.slice(OVERLAY_ID_MESSAGE.length).trim() || undefined;
}

/** The id of a pod's directories in a claim's status, for {@link givenOverlayId}. */
export function statusOverlayId(pod: Pod): string | undefined {
  const id = overlayIdOf(pod);
  return id && `${pod.metadata.uid}.${id}`;
}

/**
 * The id of the pod's overlay directories when the tenant was given it; undefined if the claim's status describes
 * another pod, for example if an older operator assigned this one.
 */
export function givenOverlayId({ metadata }: Pod, { status }: Claim): string | undefined {
  const pod = `${metadata.uid}.`;
  return status?.overlayId?.startsWith(pod) ? status.overlayId.slice(pod.length) : undefined;
}

/**
 * Whether the pod's overlay directories differ from those that the tenant was given. If the cluster's store is restored
 * from a backup that still contains an ended pod, its node creates it again: with its old name and uid, and empty.
 */
export function hasLostFiles(pod: Pod, claim: Claim): boolean {
  const [present, given] = [overlayIdOf(pod), givenOverlayId(pod, claim)];
  return present !== undefined && given !== undefined && present !== given;
}

/**
 * Whether the pod is the one in the claim's status, with the files that its tenant was given, bound to this claim
 * object and its tenant.
 */
export function isPodOf(pod: Pod, claim: Claim): boolean {
  const { metadata } = pod;
  return (
    isShown(pod, claim) &&
    !hasLostFiles(pod, claim) &&
    claim.metadata.uid !== undefined &&
    metadata.annotations?.[annotation.claimUid] === claim.metadata.uid &&
    metadata.labels?.[label.tenant] === claim.spec.tenantId
  );
}
