import { isNotFound } from "../../crds/client/api-error.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Workload } from "../../crds/workload.ts";
import { workloadNotFound } from "./workload-not-found.ts";

/** Reads a workload from the cluster. @throws HttpError 404 that says how to create it */
export async function readWorkload(
  name: string,
  { client, namespace, signal }: { client: ClusterClient; namespace: string; signal?: AbortSignal },
): Promise<Workload> {
  try {
    return await client.get(workloads, { namespace, name }, { signal });
  } catch (error) {
    throw isNotFound(error) ? workloadNotFound(name) : error;
  }
}
