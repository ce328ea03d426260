import { withDefaults } from "../../crds/defaults.ts";
import { workloadProblems } from "../../crds/validate-workload.ts";
import type { WorkloadSpec } from "../../crds/workload.ts";

/** Why a workload cannot be Ready, and what to change; undefined when it can. */
export function workloadProblem(spec: WorkloadSpec): { reason: string; message: string } | undefined {
  const problems = workloadProblems(spec, { allowUnknownFields: true });
  if (problems.length > 0) return { reason: "Invalid", message: problems.join("; ") };
  if (spec.image.dockerfile !== undefined) {
    return {
      reason: "BuildUnavailable",
      message:
        "images are not built yet: build spec.image.dockerfile elsewhere and give the result's name as spec.image.ref",
    };
  }
  const { network } = withDefaults(spec);
  // Accepting these without doing what they say would let a tenant out.
  if (network.access === "restricted" && network.allowlist.length + network.credentials.length > 0) {
    return {
      reason: "EgressProxyUnavailable",
      message:
        "egress by domain is not enforced yet: leave spec.network.allowlist and spec.network.credentials empty, or set spec.network.access to none",
    };
  }
  return undefined;
}
