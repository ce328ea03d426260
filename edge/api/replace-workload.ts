import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Workload, WorkloadSpec } from "../../crds/workload.ts";
import { readWorkload } from "./read-workload.ts";
import { workloadNotFound } from "./workload-not-found.ts";

const MAX_TRIES = 5;

/**
 * Replaces a workload's spec and keeps its metadata and status; tries again where somebody else wrote in between.
 *
 * @throws HttpError 404 where there is no such workload; ApiError 409 where others never stop writing
 */
export async function replaceWorkload(
  change: { name: string; spec: WorkloadSpec },
  options: { client: ClusterClient; namespace: string },
): Promise<Workload> {
  for (let tries = 1; ; tries += 1) {
    const current = await readWorkload(change.name, options);
    try {
      return await options.client.replace(workloads, { ...current, spec: change.spec });
    } catch (error) {
      if (isNotFound(error)) throw workloadNotFound(change.name);
      if (!isConflict(error) || tries === MAX_TRIES) throw error;
    }
  }
}
