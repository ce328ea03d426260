import { isNotFound } from "../../../crds/client/api-error.ts";
import { persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { KubernetesObject, Pod } from "../../../crds/kubernetes.ts";
import type { Resource } from "../../../crds/resource.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME } from "../../../crds/snapshots/snapshots-names.ts";
import { HttpError } from "../../http/http-error.ts";

/**
 * Whether the snapshots volume can be read: `none` where there never was one, so that there are no snapshots.
 *
 * @throws HttpError 503 that says what is missing, where the volume is there and its helper pod does not run
 */
export async function storeState(options: { client: ClusterClient; namespace: string }): Promise<"none" | "ready"> {
  const [claim, pod] = await Promise.all([find(persistentVolumeClaims, options), find(pods, options)]);
  if (claim === undefined) return "none";
  const missing = whatIsMissing(pod);
  if (missing === undefined) return "ready";
  const { phase = "Pending" } = claim.status ?? {};
  const volume = phase === "Bound" ? "" : `, and its volume claim ${SNAPSHOTS_NAME} is ${phase}`;
  throw new HttpError(
    503,
    `the snapshots volume cannot be reached: its helper pod ${SNAPSHOTS_NAME} ${missing}${volume}; ` +
      `see kubectl -n ${options.namespace} describe pod,pvc ${SNAPSHOTS_NAME}`,
    { headers: { "retry-after": "1" } },
  );
}

/** In words, after the pod's name; undefined where its container runs. */
function whatIsMissing(pod: Pod | undefined): string | undefined {
  if (pod === undefined) return "does not exist (the operator makes it, so see that one runs)";
  if (pod.metadata.deletionTimestamp !== undefined) return "is being deleted";
  const { phase = "Pending", conditions = [], containerStatuses = [] } = pod.status ?? {};
  const state = containerStatuses.find(({ name }) => name === SNAPSHOTS_CONTAINER)?.state;
  if (phase === "Running" && state?.running !== undefined) return undefined;
  const scheduled = conditions.find(({ type }) => type === "PodScheduled");
  const why =
    state?.waiting?.message ??
    state?.waiting?.reason ??
    state?.terminated?.reason ??
    (scheduled?.status === "False" ? scheduled.message : undefined);
  return `is ${phase} and does not run${why === undefined ? "" : ` (${why})`}`;
}

async function find<T extends KubernetesObject>(
  resource: Resource<T>,
  { client, namespace }: { client: ClusterClient; namespace: string },
): Promise<T | undefined> {
  try {
    return await client.get(resource, { namespace, name: SNAPSHOTS_NAME });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
