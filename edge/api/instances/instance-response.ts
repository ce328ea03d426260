import type { Pod, PodPhase } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";

/** The instance record; what is not known yet, or does not apply to an unclaimed pod, is absent. */
export interface InstanceResponse {
  name: string;
  phase: PodPhase;
  tenantId?: string;
  workloadRef?: string;
  ip?: string;
  labels: Record<string, string>;
  /** ISO 8601, as the times below. */
  createdAt: string;
  lastActivity?: string;
  claimedAt?: string;
}

/** Shows a pod as `slimPod` leaves it, as the REST API and the event stream do. The claim call that bound a pod is its first activity. */
export function instanceResponse({ metadata, status }: Pod): InstanceResponse {
  const { name, labels = {}, annotations = {}, creationTimestamp } = metadata;
  const tenantId = labels[label.tenant];
  const workloadRef = labels[label.workload];
  const claimedAt = annotations[annotation.claimedAt];
  const lastActivity = latest(annotations[annotation.lastActivity], claimedAt);
  return {
    name,
    phase: status?.phase ?? "Pending",
    ...(tenantId !== undefined && { tenantId }),
    ...(workloadRef !== undefined && { workloadRef }),
    ...(status?.podIP !== undefined && { ip: status.podIP }),
    labels,
    createdAt: creationTimestamp ?? "",
    ...(lastActivity !== undefined && { lastActivity }),
    ...(claimedAt !== undefined && { claimedAt }),
  };
}

/** The later of two times; one that is no time, as a person may have written it, does not count. */
function latest(a: string | undefined, b: string | undefined): string | undefined {
  const [timeA, timeB] = [Date.parse(a ?? ""), Date.parse(b ?? "")];
  if (Number.isNaN(timeA)) return Number.isNaN(timeB) ? undefined : b;
  return timeB > timeA ? b : a;
}
