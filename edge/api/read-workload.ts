import { isNotFound } from "../../crds/client/api-error.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Workload } from "../../crds/workload.ts";
import { HttpError } from "../http/http-error.ts";
import { quote } from "../http/quote.ts";

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

/** The 404 of a workload that nobody has created. */
export function workloadNotFound(name: string): HttpError {
  return new HttpError(
    404,
    `workload ${quote(name)} does not exist; create it with POST /api/v1/workloads, or apply a TenancyWorkload with kubectl`,
  );
}

/** The 409 of a workload that nothing new may use. */
export function workloadTerminating(name: string): HttpError {
  return new HttpError(
    409,
    `workload ${quote(name)} is being deleted, and goes when no claim and no pool uses it any more: use another, or create it anew then`,
  );
}
