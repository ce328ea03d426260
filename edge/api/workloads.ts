import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import { pools, workloads } from "../../crds/kinds.ts";
import { finalizer } from "../../crds/labels.ts";
import { quote } from "../../crds/quote.ts";
import { workloadProblems } from "../../crds/schema/validate-workload.ts";
import type { Workload, WorkloadSpec, WorkloadStatus } from "../../crds/workload.ts";
import { describeUsers, workloadUsers } from "../../crds/workload-users.ts";
import { platformOnly } from "../access/route-access.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { HttpError } from "../http/http-error.ts";
import { pathParam, workloadNameRule } from "../http/parameters.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";
import type { OpenApiSchema } from "./openapi/request-schemas.ts";
import { doneSchema } from "./openapi/schemas.ts";
import { deleteObject, objectNotFound, readObject, type SpecKind, specRoutes } from "./spec-routes.ts";

const { properties: deletion, ...deleted } = doneSchema("deleted");
/** Response of a deletion, with the objects that still use the workload. */
const deletedSchema: OpenApiSchema = {
  ...deleted,
  properties: {
    ...deletion,
    phase: { type: "string", enum: ["Terminating"], description: "Present while something uses the workload." },
    message: { type: "string", description: "The objects that use it, and what to do." },
  },
};

const kind: SpecKind<Workload> = {
  resource: workloads,
  ...{ noun: "workload", path: "/api/v1/workloads", parameter: "name", nameRule: workloadNameRule, schema: "Workload" },
  onReplaced: "Pools roll to the new spec; claimed pods are not changed.",
  problemsOf: workloadProblems,
  show: workloadResponse,
  finalizers: [finalizer.inUse],
  terminating: workloadTerminating,
};

/** The routes of workloads. */
export function workloadRoutes(options: { cluster: Cluster; namespace: string; cache: ClusterCache }): ApiRoute[] {
  const { cluster, cache } = options;
  return [
    ...specRoutes(kind, options),
    {
      method: "DELETE",
      path: `${kind.path}/:name`,
      access: platformOnly,
      summary: "Delete a workload",
      description:
        "The workload is deleted when no claim and no pool uses it; until then the response names those that do.",
      takes: ["if-match"],
      answer: deletedSchema,
      errors: [404, 409, 503],
      async handle(request) {
        const name = pathParam(request, "name", workloadNameRule);
        const { items: pooled } = await cluster(pools).list();
        const left = await deleteObject(kind, request, options);
        if (left === undefined) return jsonResponse({ status: "deleted" });
        const [claims, pods] = [cache.claims.store.values(), cache.pods.store.values()];
        const message = describeUsers(workloadUsers(name, { claims, pools: pooled, pods }));
        return jsonResponse({ status: "deleted", ...(message !== undefined && { phase: "Terminating", message }) });
      },
    },
  ];
}

const MAX_TRIES = 5;

/**
 * Adds annotations to a workload; retries on conflicts.
 *
 * @throws HttpError 404 if it is gone, 409 if another one has the same name; ApiError 409 after too many conflicts
 */
export async function annotateWorkload(
  { metadata: { name, uid } }: Workload,
  annotations: Readonly<Record<string, string>>,
  options: { cluster: Cluster },
): Promise<Workload> {
  for (let tries = 1; ; tries += 1) {
    const workload = await readWorkload(name, options);
    const { metadata, ...rest } = workload;
    if (metadata.uid !== uid) {
      throw new HttpError(409, `workload ${quote(name)} was deleted and created again in the meantime; try again`);
    }
    const annotated = { ...metadata, annotations: { ...metadata.annotations, ...annotations } };
    try {
      return await options
        .cluster(workloads)
        .of(workload)
        .replace({ ...rest, metadata: annotated });
    } catch (error) {
      if (isNotFound(error)) throw objectNotFound(kind, name);
      if (!isConflict(error) || tries === MAX_TRIES) throw error;
    }
  }
}

/** A workload as shown by the REST API; `reason` and `message` describe a problem. */
interface WorkloadResponse {
  name: string;
  spec: WorkloadSpec;
  status: Pick<WorkloadStatus, "phase" | "reason" | "message" | "image" | "build" | "images">;
  /** ISO 8601. */
  createdAt: string;
}

/** Shows a workload as the REST API does. */
function workloadResponse({ metadata, spec, status: stored }: Workload): WorkloadResponse {
  // Until the operator has seen the deletion, the status is older than it.
  const isLeaving = metadata.deletionTimestamp !== undefined && stored?.phase !== "Terminating";
  const status: Partial<WorkloadStatus> | undefined = isLeaving ? { phase: "Terminating" } : stored;
  return {
    name: metadata.name,
    spec,
    status: {
      phase: status?.phase ?? "Creating",
      ...(status?.reason !== undefined && { reason: status.reason }),
      ...(status?.message !== undefined && { message: status.message }),
      ...(status?.image !== undefined && { image: status.image }),
      ...(status?.build !== undefined && { build: status.build }),
      ...(status?.images !== undefined && { images: status.images }),
    },
    createdAt: metadata.creationTimestamp ?? "",
  };
}

/** Reads a workload from the cluster. @throws HttpError 404 that says how to create it */
export function readWorkload(name: string, options: { cluster: Cluster; signal?: AbortSignal }): Promise<Workload> {
  return readObject(kind, name, options);
}

/** The 409 for a workload that is being deleted. */
export function workloadTerminating(name: string): HttpError {
  return new HttpError(
    409,
    `workload ${quote(name)} is being deleted, and goes when no claim and no pool uses it: use another one, or create it again after that`,
  );
}
