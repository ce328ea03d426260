/** The slice of a container that a simulated kubelet reads. */
export interface Container {
  name: string;
  image?: string;
  restartPolicy?: string;
  securityContext?: { runAsNonRoot?: boolean; runAsUser?: number };
  env?: { name: string; value?: string }[];
}

/** The slice of a pod that a simulated kubelet reads. */
export interface Pod {
  metadata: {
    name: string;
    namespace: string;
    uid: string;
    resourceVersion?: string;
    annotations?: Record<string, string>;
    deletionTimestamp?: string;
    deletionGracePeriodSeconds?: number;
  };
  spec: {
    nodeName?: string;
    restartPolicy?: string;
    readinessGates?: { conditionType: string }[];
    securityContext?: { runAsNonRoot?: boolean; runAsUser?: number };
    containers: Container[];
    initContainers?: Container[];
  };
  status?: { phase?: string; podIP?: string; conditions?: { type: string; status: string; reason?: string }[] };
}

/** Whether a condition of the pod is true. */
export function hasCondition(pod: Pod, type: string): boolean {
  return pod.status?.conditions?.some((condition) => condition.type === type && condition.status === "True") ?? false;
}
