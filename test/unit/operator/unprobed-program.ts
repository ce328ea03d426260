import type { ContainerState, Pod } from "../../../crds/kubernetes.ts";

/** When a run of the program began, by the node's clock. */
export const STARTED = "2026-01-01T00:00:00Z";

/** A pod without a probe, which the kubelet calls Ready while its program runs. */
export function unprobedPod(
  state: ContainerState,
  { restartCount = 0, ...metadata }: Partial<Pod["metadata"]> & { restartCount?: number } = {},
): Pod {
  const isRunning = state.running !== undefined;
  return {
    metadata: { name: "p", namespace: "n", uid: "p-uid", ...metadata },
    spec: { containers: [{ name: "workload", image: "i", ports: [{ containerPort: 8080 }] }] },
    status: {
      ...{ phase: "Running", podIP: "10.0.0.1" },
      conditions: [
        { type: "PodReadyToStartContainers", status: "True" },
        { type: "Ready", status: isRunning ? "True" : "False" },
      ],
      containerStatuses: [{ name: "workload", ready: isRunning, image: "i", restartCount, state }],
    },
  };
}

export const running: ContainerState = { running: { startedAt: STARTED } };
