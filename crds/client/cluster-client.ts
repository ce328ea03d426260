import type { KubernetesList, KubernetesObject } from "../kubernetes.ts";
import { acceptedType, objectPath, type Resource, resourcePath } from "../resource.ts";
import { dropManagedFields } from "./managed-fields.ts";
import { parseAnswer } from "./parse-answer.ts";
import type { Transport, TransportRequest, TransportResponse } from "./transport.ts";

export interface ObjectRef {
  readonly namespace?: string | undefined;
  readonly name: string;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** @default 30000 */
  readonly timeoutMs?: number | undefined;
}

export interface ListOptions extends CallOptions {
  /** @default all namespaces */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly limit?: number | undefined;
  readonly continue?: string | undefined;
}

export interface WriteOptions extends CallOptions {
  /** Whether the server only validates the write. @default false */
  readonly dryRun?: boolean | undefined;
}

export interface PatchOptions extends CallOptions {
  readonly type: "merge" | "json";
  /** A `resourceVersion` in the metadata of a merge patch is a precondition. */
  readonly body: unknown;
  readonly subresource?: "status" | "scale" | undefined;
}

export interface ApplyOptions extends CallOptions {
  readonly fieldManager: string;
  /** Takes ownership of fields from other managers instead of failing with a conflict. */
  readonly force?: boolean | undefined;
}

export interface DeleteOptions extends CallOptions {
  /** Precondition: a successor of the same name is not affected. */
  readonly uid?: string | undefined;
  /** Precondition: an object that has changed since is not affected. */
  readonly resourceVersion?: string | undefined;
  readonly gracePeriodSeconds?: number | undefined;
  /** How dependents are deleted; with `Foreground` the object stays until they are gone. @default the kind's default */
  readonly propagationPolicy?: "Foreground" | "Background" | undefined;
}

/**
 * Calls to one API server. Each call throws an `ApiError` if the server refuses it, and a `NetworkError` without a
 * response. Results have no `managedFields`.
 *
 * Follows https://kubernetes.io/docs/reference/using-api/api-concepts/
 */
export interface ClusterClient {
  get<T extends KubernetesObject>(resource: Resource<T>, ref: ObjectRef, options?: CallOptions): Promise<T>;
  list<T extends KubernetesObject>(resource: Resource<T>, options?: ListOptions): Promise<KubernetesList<T>>;
  create<T extends KubernetesObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  /** Writes the whole object; a `resourceVersion` in it is the precondition. */
  replace<T extends KubernetesObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  patch<T extends KubernetesObject>(resource: Resource<T>, ref: ObjectRef, options: PatchOptions): Promise<T>;
  /** Server-side apply: https://kubernetes.io/docs/reference/using-api/server-side-apply/ */
  apply<T extends KubernetesObject>(resource: Resource<T>, object: T, options: ApplyOptions): Promise<T>;
  /** Resolves to the object if finalizers or its grace period keep it, and to undefined if it is gone. */
  delete<T extends KubernetesObject>(
    resource: Resource<T>,
    ref: ObjectRef,
    options?: DeleteOptions,
  ): Promise<T | undefined>;
  /** A call that is not about objects: discovery, `/version`, `/readyz`. Resolves only with a status of the 200s. */
  request(request: TransportRequest): Promise<TransportResponse>;
  readonly transport: Transport;
}

const patchTypes = {
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
} as const;

export function createClusterClient(options: { transport: Transport }): ClusterClient {
  const { transport } = options;

  async function call(request: TransportRequest): Promise<unknown> {
    return parseAnswer(await transport.request(request), request);
  }

  async function callForObject<T extends KubernetesObject>(
    resource: Resource<T>,
    request: TransportRequest,
  ): Promise<T> {
    return dropManagedFields((await call({ ...request, resource: resource.plural })) as T);
  }

  return {
    transport,

    async get(resource, ref, { signal, timeoutMs } = {}) {
      const path = objectPath(resource, ref);
      return callForObject(resource, { method: "GET", path, verb: "get", signal, timeoutMs });
    },

    async list<T extends KubernetesObject>(
      resource: Resource<T>,
      { namespace, signal, timeoutMs, ...query }: ListOptions = {},
    ) {
      const path = resourcePath(resource, { namespace, query });
      const accept = acceptedType(resource, "list");
      const where = { method: "GET", path, accept, verb: "list", resource: resource.plural } as const;
      const request = { ...where, signal, timeoutMs };
      const answer = await transport.request(request);
      const body = resource.cut?.(answer.body) ?? answer.body;
      const list = parseAnswer({ status: answer.status, body }, request) as KubernetesList<T>;
      // An empty list of a custom resource may come as null from old servers.
      list.items ??= [];
      for (const item of list.items) dropManagedFields(item);
      return list;
    },

    async create(resource, object, { dryRun, signal, timeoutMs } = {}) {
      const { namespace } = object.metadata;
      if (resource.namespaced && !namespace)
        throw new TypeError(`Cannot create a ${resource.kind}: it has no namespace`);
      const path = resourcePath(resource, { namespace, query: { dryRun: dryRun ? "All" : undefined } });
      const body = JSON.stringify(withType(resource, object));
      return callForObject(resource, { method: "POST", path, body, verb: "create", signal, timeoutMs });
    },

    async replace(resource, object, { dryRun, signal, timeoutMs } = {}) {
      const { namespace, name } = object.metadata;
      const path = objectPath(resource, { namespace, name, query: { dryRun: dryRun ? "All" : undefined } });
      const body = JSON.stringify(withType(resource, object));
      return callForObject(resource, { method: "PUT", path, body, verb: "update", signal, timeoutMs });
    },

    async patch(resource, ref, { type, body: patch, subresource, signal, timeoutMs }) {
      const path = objectPath(resource, { ...ref, subresource });
      const body = JSON.stringify(patch);
      const contentType = patchTypes[type];
      return callForObject(resource, { method: "PATCH", path, body, contentType, verb: "patch", signal, timeoutMs });
    },

    async apply(resource, object, { fieldManager, force, signal, timeoutMs }) {
      const { namespace, name } = object.metadata;
      const path = objectPath(resource, { namespace, name, query: { fieldManager, force } });
      const body = JSON.stringify(withType(resource, object));
      // JSON is YAML, and this is the only type for it that servers before 1.32 accept.
      const contentType = "application/apply-patch+yaml";
      return callForObject(resource, { method: "PATCH", path, body, contentType, verb: "apply", signal, timeoutMs });
    },

    async delete<T extends KubernetesObject>(resource: Resource<T>, ref: ObjectRef, options: DeleteOptions = {}) {
      const { uid, resourceVersion, gracePeriodSeconds, propagationPolicy, signal, timeoutMs } = options;
      const path = objectPath(resource, ref);
      const preconditions = uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion };
      const deletion = {
        apiVersion: "v1",
        kind: "DeleteOptions",
        preconditions,
        gracePeriodSeconds,
        propagationPolicy,
      };
      const body = JSON.stringify(deletion);
      const left = await callForObject(resource, { method: "DELETE", path, body, verb: "delete", signal, timeoutMs });
      return isGone(left) ? undefined : left;
    },

    async request(request) {
      const answer = await transport.request(request);
      if (answer.status < 200 || answer.status >= 300) parseAnswer(answer, request);
      return answer;
    },
  };
}

function withType<T extends KubernetesObject>(resource: Resource<T>, object: T): T {
  if (object.apiVersion !== undefined && object.kind !== undefined) return object;
  const { group, version, kind } = resource;
  return { apiVersion: group === "" ? version : `${group}/${version}`, kind, ...object };
}

/**
 * Whether the response to a deletion says that the object is gone: a `Status`, or the last state of an object without
 * finalizers.
 *
 * For some kinds, such as pods, the response is the object in both cases.
 */
function isGone(answer: KubernetesObject): boolean {
  if (answer.kind === "Status") return true;
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = answer.metadata;
  if (finalizers !== undefined && finalizers.length > 0) return false;
  return deletionTimestamp === undefined || !deletionGracePeriodSeconds;
}
