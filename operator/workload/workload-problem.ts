import { workloadProblems } from "../../crds/schema/validate-workload.ts";
import type { WorkloadSpec } from "../../crds/workload.ts";
import type { OperatorConfig } from "../config.ts";
import { egressProblems } from "../egress/egress-problems.ts";
import { needsProxy } from "../egress/egress-rules.ts";

/** Why a workload cannot be Ready, and what to change; undefined when it can. */
export function workloadProblem(
  spec: WorkloadSpec,
  config: Pick<OperatorConfig, "egress">,
): { reason: string; message: string } | undefined {
  const problems = workloadProblems(spec, { allowUnknownFields: true });
  if (problems.length > 0) return { reason: "Invalid", message: problems.join("; ") };
  if (spec.image.dockerfile !== undefined) {
    return {
      reason: "BuildUnavailable",
      message:
        "images are not built yet: build spec.image.dockerfile elsewhere and give the result's name as spec.image.ref",
    };
  }
  const egress = egressProblems(spec);
  if (egress.length > 0) return { reason: "Invalid", message: egress.join("; ") };
  // Accepting these without doing what they say would let a tenant out.
  if (config.egress.image === undefined && needsProxy(spec)) {
    return {
      reason: "EgressProxyUnavailable",
      message:
        "the operator has no image for the egress proxy: set TENANCY_PROXY_IMAGE, or leave spec.network.allowlist and spec.network.credentials empty",
    };
  }
  return undefined;
}
