import type { Workload, WorkloadSpec, WorkloadStatus } from "../../crds/workload.ts";

/** A workload as the REST API shows it; `reason` and `message` say what is wrong. */
export interface WorkloadResponse {
  name: string;
  spec: WorkloadSpec;
  status: { phase: WorkloadStatus["phase"]; reason?: string; message?: string };
  /** ISO 8601. */
  createdAt: string;
}

/** Shows a workload as the REST API does. */
export function workloadResponse({ metadata, spec, status: stored }: Workload): WorkloadResponse {
  // Until the operator has looked at the deletion, the status is of before it.
  const isLeaving = metadata.deletionTimestamp !== undefined && stored?.phase !== "Terminating";
  const status: Partial<WorkloadStatus> | undefined = isLeaving ? { phase: "Terminating" } : stored;
  return {
    name: metadata.name,
    spec,
    status: {
      phase: status?.phase ?? "Creating",
      ...(status?.reason !== undefined && { reason: status.reason }),
      ...(status?.message !== undefined && { message: status.message }),
    },
    createdAt: metadata.creationTimestamp ?? "",
  };
}
