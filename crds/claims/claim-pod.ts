import type { Claim } from "../claim.ts";
import type { Pod } from "../kubernetes.ts";
import { annotation, label, WORKLOAD_CONTAINER } from "../labels.ts";

/** Says that the pod's sandbox, which holds its address, is there; the second is its name before Kubernetes 1.28. */
export const SANDBOX_CONDITIONS: readonly string[] = ["PodReadyToStartContainers", "PodHasNetwork"];

/**
 * The address that a pod has at this moment; undefined where it has none, or may have lost it.
 *
 * `status.podIP` alone is not enough: the kubelet goes on showing the address of a sandbox that is gone until the next
 * one is there, and that of a pod that has ended, while the network plugin gives it to other pods. A server that does
 * not tell of sandboxes tells of containers, which end with theirs.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-has-network
 */
export function podAddress({ metadata, status }: Pod): string | undefined {
  if (metadata.deletionTimestamp !== undefined || status?.podIP === undefined || status.podIP === "") return undefined;
  if (status.phase === "Succeeded" || status.phase === "Failed") return undefined;
  const isTrue = (types: readonly string[]): boolean | undefined => {
    const found = status.conditions?.find(({ type }) => types.includes(type));
    return found && found.status === "True";
  };
  const program = status.containerStatuses?.find(({ name }) => name === WORKLOAD_CONTAINER);
  const runs = program?.state?.running !== undefined || isTrue(["Ready"]) === true;
  return (isTrue(SANDBOX_CONDITIONS) ?? runs) ? status.podIP : undefined;
}

/** Whether a pod's program answers, at an address that the pod has. */
export function isPodReady(pod: Pod): boolean {
  const ready = pod.status?.conditions?.find(({ type }) => type === "Ready");
  return ready?.status === "True" && podAddress(pod) !== undefined;
}

/** Names the present run of a pod's program that no probe checks; undefined where one does, or where it does not run. */
export function unprobedRun({ spec, status }: Pod): string | undefined {
  const program = spec.containers.find(({ name }) => name === WORKLOAD_CONTAINER);
  const { state, restartCount = 0 } = status?.containerStatuses?.find(({ name }) => name === WORKLOAD_CONTAINER) ?? {};
  if (program === undefined || program.readinessProbe !== undefined || state?.running === undefined) return undefined;
  return `${restartCount}@${state.running.startedAt}`;
}

/**
 * Whether a warm pod can be given to a claim: it is Ready, and where no probe checks its program, the operator has seen
 * this run of it last long enough. Pods that an older operator labelled do not name the run.
 */
export function isWarm(pod: Pod): boolean {
  if (!isPodReady(pod)) return false;
  const run = unprobedRun(pod);
  const proven = pod.metadata.annotations?.[annotation.provenRun];
  return run === undefined || (pod.metadata.labels?.[label.poolStatus] === "ready" && (proven ?? run) === run);
}

/** Where a pod's program listens at this moment, if anywhere. */
export function podEndpoint(pod: Pod): { host: string; port: number } | undefined {
  const host = podAddress(pod);
  const port = pod.spec.containers.find(({ name }) => name === WORKLOAD_CONTAINER)?.ports?.[0]?.containerPort;
  return host === undefined || port === undefined ? undefined : { host, port };
}

/**
 * Whether the claim's pod was destroyed on purpose, after which the claim keeps its phase and is given no other until
 * it is claimed again.
 */
export function isDestroyed({ metadata, status }: Claim): boolean {
  return status?.instanceId !== undefined && metadata.annotations?.[annotation.destroyed] === status.instanceId;
}

/**
 * Whether the pod is the very one that the claim shows. Names of cold pods follow from their claims, so a leader whose
 * watch is behind can make one under the name of a pod that is gone: nothing of that one is the tenant's.
 */
export function isShown({ metadata }: Pod, { status }: Claim): boolean {
  if (metadata.name !== status?.instanceId) return false;
  // Claims that an older operator made Active do not say.
  return status.instanceUid === undefined || status.instanceUid === metadata.uid;
}

/** Begins what the init container says at its end that names the pod's overlay directories. */
export const OVERLAY_ID_MESSAGE = "overlay ";

/** Names a pod's overlay directories by themselves; undefined before they are there, and where there are none. */
export function overlayIdOf({ status }: Pod): string | undefined {
  const messages = status?.initContainerStatuses?.map(({ state }) => state?.terminated?.message ?? "") ?? [];
  const told = messages.find((message) => message.startsWith(OVERLAY_ID_MESSAGE));
  return told?.slice(OVERLAY_ID_MESSAGE.length).trim() || undefined;
}

/** As a claim's status names the directories of a pod, which {@link givenOverlayId} reads. */
export function statusOverlayId(pod: Pod): string | undefined {
  const id = overlayIdOf(pod);
  return id && `${pod.metadata.uid}.${id}`;
}

/**
 * What named the pod's overlay directories when the tenant was given it; undefined where the claim speaks of another
 * pod, as where an operator of a version before gave it this one.
 */
export function givenOverlayId({ metadata }: Pod, { status }: Claim): string | undefined {
  const pod = `${metadata.uid}.`;
  return status?.overlayId?.startsWith(pod) ? status.overlayId.slice(pod.length) : undefined;
}

/**
 * Whether the pod's overlay directories are others than the tenant was given. A pod that its node had ended is made anew
 * where the cluster's store is restored from a backup that has it still: under its old name and uid, and with nothing in
 * it.
 */
export function hasLostFiles(pod: Pod, claim: Claim): boolean {
  const [present, given] = [overlayIdOf(pod), givenOverlayId(pod, claim)];
  return present !== undefined && given !== undefined && present !== given;
}

/** Whether the pod is the one that the claim shows, with the files that its tenant was given, bound to this very claim object and its tenant. */
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
