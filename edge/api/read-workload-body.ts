import { workloadProblems } from "../../crds/validate-workload.ts";
import type { WorkloadSpec } from "../../crds/workload.ts";
import { readSpecBody } from "../http/read-spec-body.ts";

/** Reads `{name, spec}` of a workload. @throws HttpError 400 that lists every problem of the spec */
export function readWorkloadBody(request: Request): Promise<{ name: string | undefined; spec: WorkloadSpec }> {
  return readSpecBody<WorkloadSpec>(request, workloadProblems);
}
