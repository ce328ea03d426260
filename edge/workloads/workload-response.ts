import type { Workload, WorkloadSpec, WorkloadStatus } from "../../crds/workload.ts";

/** A workload as the REST API shows it (spec.md, section 4.2); `reason` and `message` say what is wrong. */
export interface WorkloadResponse {
  name: string;
  spec: WorkloadSpec;
  status: { phase: WorkloadStatus["phase"]; reason?: string; message?: string };
  /** ISO 8601. */
  createdAt: string;
}

/** Shows a workload as the REST API does. */
export function workloadResponse({ metadata, spec, status }: Workload): WorkloadResponse {
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
