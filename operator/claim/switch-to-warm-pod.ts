import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";
import { isReadyToUse } from "../workload/readiness.ts";
import { activateClaim } from "./activate-claim.ts";
import { podIncarnation } from "./claim-pods.ts";
import { needsFiles } from "./restore-files.ts";
import { takeWarmPod } from "./take-warm-pod.ts";

/**
 * Gives a claim whose cold pod is still starting a warm pod, if one has become ready meanwhile. The cold pod is stale then, and the claim's
 * next run deletes it: it was its tenant's, so nobody else may get it (docs/decisions/006). Says whether it did.
 */
export async function switchToWarmPod(
  { claim, pod: cold }: { claim: Claim; pod: Pod },
  context: OperatorContext,
): Promise<boolean> {
  const { informers, config } = context;
  const workload = informers.workloads.store.get(`${config.namespace}/${claim.spec.workloadRef}`);
  if (workload === undefined || !isReadyToUse(workload)) return false;
  const incarnation = podIncarnation(claim) + 1;
  const source = needsFiles(cold) ? "pool+data" : "pool";
  const resumedFrom = cold.metadata.annotations?.[annotation.resumedFrom];
  const warm = await takeWarmPod({ claim, workload, incarnation, source, resumedFrom }, context);
  if (warm === undefined) return false;
  // Its files come before it is Active.
  if (source === "pool") await activateClaim(claim, warm, context);
  return true;
}
