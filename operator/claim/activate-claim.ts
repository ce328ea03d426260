import type { Claim, ClaimSource } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { WORKLOAD_CONTAINER } from "../../crds/workload-container.ts";
import type { OperatorContext } from "../context.ts";
import { incarnationOf, podIncarnation } from "./claim-pods.ts";
import { patchClaimStatus } from "./claim-status.ts";

/** Tells the tenant about its pod: `Active`, with what was stamped on the pod when it was bound. */
export async function activateClaim(claim: Claim, pod: Pod, context: OperatorContext): Promise<Claim> {
  const { annotations = {}, name } = pod.metadata;
  const container = pod.spec.containers.find((candidate) => candidate.name === WORKLOAD_CONTAINER);
  const source = annotations[annotation.source] as ClaimSource;
  const claimedAt = new Date();
  const active = await patchClaimStatus(
    claim,
    {
      phase: "Active",
      reason: null,
      message: null,
      instanceId: name,
      endpoint: { host: pod.status?.podIP ?? "", port: container?.ports?.[0]?.containerPort ?? 0 },
      source,
      claimedAt: claimedAt.toISOString(),
      ...(incarnationOf(pod) !== podIncarnation(claim) && { podIncarnation: incarnationOf(pod) }),
      attempt: claim.metadata.annotations?.[annotation.attempt] ?? null,
    },
    context,
  );
  context.restores.forget(pod.metadata.uid ?? "");
  context.restoreFailures.delete(claim.metadata.uid ?? "");
  const boundAt = Date.parse(annotations[annotation.claimedAt] ?? "");
  if (!Number.isNaN(boundAt)) context.metrics.claimSeconds.observe({ source }, (claimedAt.getTime() - boundAt) / 1000);
  return active;
}
