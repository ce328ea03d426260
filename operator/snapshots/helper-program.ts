import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { SnapshotsContext } from "./context.ts";
import type { HelperProgram } from "./helper-pod.ts";

/** The operator's container, as `manifests/base` names it. */
const CONTAINER = "operator";

/**
 * The program of the helper pod: the configured one, else the image of the operator's own pod.
 *
 * @throws Error if both are unknown, and as the client does
 */
export async function findHelperProgram({
  cluster,
  config,
}: Pick<SnapshotsContext, "cluster" | "config">): Promise<HelperProgram> {
  const { image, program: configMap, ownPod } = config.snapshots.helper;
  if (image !== undefined) return { image, configMap };
  if (ownPod === undefined) {
    throw new Error(
      "Cannot create the helper pod: set TENANCY_SNAPSHOT_IMAGE to the operator's image, or TENANCY_POD_NAME to its pod",
    );
  }
  return programOf(await cluster(pods).named(ownPod).get());
}

function programOf({ metadata, spec }: Pod): HelperProgram {
  const own = spec.containers.find(({ name }) => name === CONTAINER) ?? spec.containers[0];
  if (own?.image === undefined) throw new Error(`Cannot create the helper pod: pod ${metadata.name} has no image`);
  return { image: own.image, pullSecrets: spec.imagePullSecrets };
}
