import type { Change } from "../../crds/client/watch/informer.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Workload } from "../../crds/workload.ts";
import type { OperatorContext } from "../context.ts";

/**
 * Whether pods may be made of a workload: its present spec was found good, its policy is in place, and it is not going.
 */
export function isReadyToUse({ metadata, status }: Workload): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase === "Ready" &&
    status.observedGeneration === metadata.generation
  );
}

/** Whether what waits for a workload may go on after the change: it is there or gone, or its spec was judged anew. */
export function hasNewPhase({ type, object, previous }: Change<Workload>): boolean {
  return (
    type !== "modified" ||
    object.status?.phase !== previous?.status?.phase ||
    object.status?.observedGeneration !== previous?.status?.observedGeneration
  );
}

/** Remembers on the workload that its image runs as root, so that its next pods are made without `runAsNonRoot`. */
export async function rememberRoot(workload: string, { client, config, informers }: OperatorContext): Promise<void> {
  const { namespace } = config;
  if (informers.workloads.store.get(`${namespace}/${workload}`)?.status?.runsAsRoot === true) return;
  const body = { status: { runsAsRoot: true } };
  informers.workloads.put(
    await client.patch(workloads, { namespace, name: workload }, { type: "merge", subresource: "status", body }),
  );
}
