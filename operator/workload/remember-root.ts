import { programContainer } from "../../crds/claims/claim-pod.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { imageOf } from "../../crds/workload.ts";
import type { OperatorContext } from "../context.ts";

/**
 * Writes to the workload's status that its image runs as root, so that its next pods are created without
 * `runAsNonRoot`.
 *
 * @param pod with the image, which may be older than the workload's present one
 */
export async function rememberRoot(pod: Pod, { cluster, config, informers }: OperatorContext): Promise<void> {
  const workload = pod.metadata.labels?.[label.workload] ?? "";
  const known = informers.workloads.store.get({ namespace: config.namespace, name: workload });
  if (known?.status?.runsAsRoot === true) return;
  const image = programContainer(pod.spec)?.image;
  // Compare only the digest: admission may have changed the rest of the image reference.
  const isBuilt = known?.spec.image.dockerfile !== undefined;
  if (isBuilt && digestOf(imageOf(known)) !== digestOf(image)) return;
  await cluster(workloads).named(workload).patchStatus({ runsAsRoot: true });
}

function digestOf(image = ""): string | undefined {
  return /@(sha256:[0-9a-f]{64})$/.exec(image)?.[1];
}
