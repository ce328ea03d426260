import { isAlreadyExists, isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { type ClusterClient, listAll } from "../../crds/client/cluster-client.ts";
import { pools, workloads } from "../../crds/kinds.ts";
import { finalizer } from "../../crds/labels.ts";
import { workloadProblems } from "../../crds/schema/validate-workload.ts";
import type { Workload, WorkloadSpec, WorkloadStatus } from "../../crds/workload.ts";
import { describeUsers, workloadUsers } from "../../crds/workload-users.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { HttpError, quote } from "../http/http-error.ts";
import { pathParam, workloadNameRule } from "../http/parameters.ts";
import { readSpecBody } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";
import type { OpenApiSchema } from "./openapi/request-schemas.ts";
import { doneSchema, specBodySchema } from "./openapi/schemas.ts";

const ALL = "/api/v1/workloads";
const ONE = "/api/v1/workloads/:name";
const { properties: deletion, ...deleted } = doneSchema("deleted");
/** The answer of a deletion, with what still uses the workload. */
const deletedSchema: OpenApiSchema = {
  ...deleted,
  properties: {
    ...deletion,
    phase: { type: "string", enum: ["Terminating"], description: "Present while something uses the workload." },
    message: { type: "string", description: "What uses it, and what to do." },
  },
};

/** The routes of workloads: each is a live call, so that what was written elsewhere a moment ago shows. */
export function workloadRoutes(options: { client: ClusterClient; namespace: string; cache: ClusterCache }): ApiRoute[] {
  const { client, namespace, cache } = options;

  return [
    {
      method: "GET",
      path: ALL,
      summary: "All workloads",
      answer: ["Workload"],
      errors: [503],
      async handle() {
        const items = await listAll(workloads, options);
        return jsonResponse(items.map(workloadResponse).sort(byName));
      },
    },
    {
      method: "GET",
      path: ONE,
      summary: "One workload",
      answer: "Workload",
      errors: [404, 503],
      async handle(request) {
        return jsonResponse(
          workloadResponse(await readWorkload(pathParam(request, "name", workloadNameRule), options)),
        );
      },
    },
    {
      method: "POST",
      path: ALL,
      summary: "Create a workload",
      body: specBodySchema("WorkloadSpec"),
      status: 201,
      answer: "Workload",
      errors: [408, 409, 413, 503],
      async handle(request) {
        const { name, spec } = await readWorkloadBody(request);
        if (name === undefined) throw new HttpError(400, "body.name: is required");
        if (!workloadNameRule.accepts(name)) {
          throw new HttpError(400, `body.name: ${workloadNameRule.says}, got ${quote(name)}`);
        }
        const created = await create({ metadata: { name, namespace, finalizers: [finalizer.inUse] }, spec });
        return jsonResponse(workloadResponse(created), { status: 201 });
      },
    },
    {
      method: "PUT",
      path: ONE,
      summary: "Replace a workload's spec",
      body: { ...specBodySchema("WorkloadSpec"), required: ["spec"] },
      answer: "Workload",
      errors: [404, 408, 409, 413, 503],
      async handle(request) {
        const name = pathParam(request, "name", workloadNameRule);
        const body = await readWorkloadBody(request);
        if (body.name !== undefined && body.name !== name) {
          throw new HttpError(
            400,
            `body.name: must be ${quote(name)} as in the path, got ${quote(body.name)}; names cannot change`,
          );
        }
        const replaced = await replaceWorkload({ name, spec: body.spec }, options);
        cache.workloads.put(replaced);
        return jsonResponse(workloadResponse(replaced));
      },
    },
    {
      method: "DELETE",
      path: ONE,
      summary: "Delete a workload",
      description: "It goes when no claim and no pool uses it any more; while some do, the answer names them.",
      answer: deletedSchema,
      errors: [404, 503],
      async handle(request) {
        const name = pathParam(request, "name", workloadNameRule);
        const pooled = await listAll(pools, options);
        try {
          const left = await client.delete(workloads, { namespace, name });
          if (left === undefined) return jsonResponse({ status: "deleted" });
          cache.workloads.put(left);
        } catch (error) {
          throw isNotFound(error) ? workloadNotFound(name) : error;
        }
        const [claims, pods] = [cache.claims.store.values(), cache.pods.store.values()];
        const message = describeUsers(workloadUsers(name, { claims, pools: pooled, pods }));
        return jsonResponse({ status: "deleted", ...(message !== undefined && { phase: "Terminating", message }) });
      },
    },
  ];

  async function create(workload: Workload): Promise<Workload> {
    try {
      const created = await client.create(workloads, workload);
      cache.workloads.put(created);
      return created;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      const { name } = workload.metadata;
      const { metadata } = await readWorkload(name, options);
      if (metadata.deletionTimestamp !== undefined) throw workloadTerminating(name);
      throw new HttpError(409, `workload ${quote(name)} exists already; change it with PUT ${ALL}/${name}`);
    }
  }
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1;
}

const MAX_TRIES = 5;

/**
 * Replaces a workload's spec and keeps its metadata and status; tries again where somebody else wrote in between.
 *
 * @throws HttpError 404 where there is no such workload; ApiError 409 where others never stop writing
 */
async function replaceWorkload(
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

/**
 * Adds annotations to a workload; tries again where somebody else wrote in between.
 *
 * @throws HttpError 404 where it is gone, 409 where it is another one of the same name; ApiError 409 where others never
 *   stop writing
 */
export async function annotateWorkload(
  { metadata: { name, uid } }: Workload,
  annotations: Readonly<Record<string, string>>,
  options: { client: ClusterClient; namespace: string },
): Promise<Workload> {
  for (let tries = 1; ; tries += 1) {
    const { metadata, ...rest } = await readWorkload(name, options);
    if (metadata.uid !== uid) {
      throw new HttpError(409, `workload ${quote(name)} was created anew meanwhile; try again`);
    }
    const annotated = { ...metadata, annotations: { ...metadata.annotations, ...annotations } };
    try {
      return await options.client.replace(workloads, { ...rest, metadata: annotated });
    } catch (error) {
      if (isNotFound(error)) throw workloadNotFound(name);
      if (!isConflict(error) || tries === MAX_TRIES) throw error;
    }
  }
}

/** A workload as the REST API shows it; `reason` and `message` say what is wrong. */
interface WorkloadResponse {
  name: string;
  spec: WorkloadSpec;
  status: Pick<WorkloadStatus, "phase" | "reason" | "message" | "image" | "build">;
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
    },
    createdAt: metadata.creationTimestamp ?? "",
  };
}

/** Reads `{name, spec}` of a workload. @throws HttpError 400 that lists every problem of the spec */
function readWorkloadBody(request: Request): Promise<{ name: string | undefined; spec: WorkloadSpec }> {
  return readSpecBody<WorkloadSpec>(request, workloadProblems);
}

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
function workloadNotFound(name: string): HttpError {
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
