import type { Container, Pod } from "../objects.ts";

/** The status of a pod whose containers all run. */
export function runningStatus({ pod, address }: { pod: Pod; address: string }, isReady: boolean): object {
  const state = { running: { startedAt: now() } };
  return {
    phase: "Running",
    hostIP: "10.63.0.1",
    podIP: address,
    podIPs: [{ ip: address }],
    startTime: pod.metadata.creationTimestamp ?? now(),
    conditions: [
      { type: "PodScheduled", status: "True", lastTransitionTime: now() },
      { type: "Initialized", status: "True", lastTransitionTime: now() },
      ready(isReady),
    ],
    initContainerStatuses: (pod.spec.initContainers ?? []).map((container) => ({
      ...shown(container),
      ready: true,
      state: { terminated: { exitCode: 0, reason: "Completed", startedAt: now(), finishedAt: now() } },
    })),
    containerStatuses: pod.spec.containers.map((container) => ({
      ...{ ...shown(container), ready: isReady, started: true, state },
    })),
  };
}

/** While one init container runs, those after it and the workload wait. */
export function initStatus({ pod }: { pod: Pod }, running: string): object {
  return {
    phase: "Pending",
    startTime: pod.metadata.creationTimestamp ?? now(),
    conditions: [{ type: "PodScheduled", status: "True", lastTransitionTime: now() }, ready(false)],
    initContainerStatuses: (pod.spec.initContainers ?? []).map((container) => ({
      ...shown(container),
      ready: false,
      state:
        container.name === running ? { running: { startedAt: now() } } : { waiting: { reason: "PodInitializing" } },
    })),
    containerStatuses: pod.spec.containers.map((container) => ({
      ...{ ...shown(container), ready: false, started: false, state: { waiting: { reason: "PodInitializing" } } },
    })),
  };
}

/** The condition `Ready`. */
export function ready(isReady: boolean): object {
  return { type: "Ready", status: isReady ? "True" : "False", lastTransitionTime: now() };
}

function shown({ name, image }: Container): object {
  return { name, image, imageID: image, restartCount: 0, lastState: {} };
}

function now(): string {
  return new Date().toISOString().replace(/\.\d+/, "");
}
