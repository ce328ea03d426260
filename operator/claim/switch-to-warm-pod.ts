import type { Claim } from "../../crds/claim.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";
import { templateHash } from "../pod/render-pod.ts";
import { isReadyToUse } from "../workload/is-ready-to-use.ts";
import { activateClaim } from "./activate-claim.ts";
import { podIncarnation } from "./claim-pods.ts";
import { needsFiles } from "./restore-files.ts";
import { takeWarmPod } from "./take-warm-pod.ts";

/**
 * Gives a claim whose cold pod is still starting a warm pod, if one has become ready meanwhile; the cold pod then fills its place in
 * the pool. Says whether it did.
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
  const warm = await takeWarmPod({ claim, workload, incarnation, source }, context);
  if (warm === undefined) return false;
  // Its files come first. The cold pod is stale, and has none of them, since no node has taken it.
  if (source === "pool+data") return true;
  // This write's precondition shows that the claim was Pending until now: nobody has used the cold pod.
  await activateClaim(claim, warm, context);
  const isAlike = cold.metadata.annotations?.[annotation.templateHash] === templateHash(workload, config);
  const [pool] = informers.pools.store.by("workload", claim.spec.workloadRef);
  // One that is not moved into a pool is stale, and the claim's next run deletes it.
  if (isAlike && pool?.metadata.deletionTimestamp === undefined && pool !== undefined) {
    await moveIntoPool(cold, pool.metadata.name, context);
  }
  return true;
}

async function moveIntoPool(pod: Pod, pool: string, { client, informers }: OperatorContext): Promise<void> {
  const { name, namespace = "", resourceVersion } = pod.metadata;
  const gone = [annotation.claimUid, annotation.claim, annotation.incarnation, annotation.source, annotation.claimedAt];
  const metadata = {
    resourceVersion,
    labels: { [label.tenant]: null, [label.pool]: pool, [label.poolStatus]: "warming" },
    annotations: Object.fromEntries(gone.map((key) => [key, null])),
  };
  try {
    informers.pods.put(await client.patch(pods, { namespace, name }, { type: "merge", body: { metadata } }));
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}
