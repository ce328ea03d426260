import { isDeepStrictEqual } from "node:util";
import { ApiError } from "../../crds/client/api-error.ts";
import { type Cluster, createCluster } from "../../crds/client/cluster.ts";
import type { ClusterClient, DeleteOptions, ObjectRef } from "../../crds/client/cluster-client.ts";
import type { TransportRequest, TransportResponse } from "../../crds/client/transport.ts";
import type { KubernetesObject } from "../../crds/kubernetes.ts";
import { API_GROUP } from "../../crds/labels.ts";
import { objectPath, type Resource } from "../../crds/resource.ts";

/** One request that reached the API, and what it carried. */
export interface Call {
  verb: "get" | "list" | "create" | "replace" | "patch" | "apply" | "delete";
  /** The plural of the kind. */
  kind: string;
  /** Of the object; the plural of the kind for a list. */
  name: string;
  /** The object, the patch, the options of a deletion, or the selectors of a list. */
  body?: unknown;
  dryRun?: true;
}

/** An error that a request fails with, or what runs before it is carried out, as by another writer; it may throw. */
type Fault = Error | ((call: Call) => unknown);

type Request = Omit<Call, "kind" | "dryRun"> & { resource: Resource<KubernetesObject>; dryRun?: boolean | undefined };

interface Watcher {
  put(object: KubernetesObject): void;
  drop(object: KubernetesObject): void;
}

type Body = KubernetesObject & { spec?: unknown; status?: unknown };

/**
 * The API server in memory: it keeps objects with resource versions, uids, preconditions and finalizers, shows each
 * write on the watches at once, records the requests, and fails those that a test names.
 */
export class MemoryApi {
  readonly calls: Call[] = [];
  readonly client: ClusterClient;
  /** Over the client, without a cache. */
  readonly cluster: Cluster;
  /** Of objects that name none. */
  readonly namespace: string;
  /** The time of day. */
  now: () => number = () => Date.parse("2026-01-01T00:00:00Z");
  /** While true, the watches show nothing. */
  lag = false;
  /** While set, no request gets an answer. */
  outage: Error | undefined;
  /** By path, with the plural of the kind. */
  readonly #objects = new Map<string, { plural: string; object: KubernetesObject }>();
  readonly #watchers: { plural: string; watcher: Watcher }[] = [];
  #faults: { verb: Call["verb"]; plural: string | undefined; fault: Fault; isOnce: boolean }[] = [];
  #version = 100;

  constructor(namespace = "n") {
    this.namespace = namespace;
    this.client = this.#client();
    this.cluster = createCluster({ client: this.client, namespace, fieldManager: "test" });
  }

  /** The newest resource version. */
  get version(): string {
    return String(this.#version);
  }

  /** The next request of the verb, and of the kind where one is named, meets the fault. */
  onNext(verb: Call["verb"], fault: Fault, resource?: Resource<KubernetesObject>): void {
    this.#faults.push({ verb, plural: resource?.plural, fault, isOnce: true });
  }

  /** Every request of the verb for the kind meets the fault, which takes the place of an earlier one. */
  onEvery(verb: Call["verb"], fault: Fault, { plural }: Resource<KubernetesObject>): void {
    this.#faults = this.#faults.filter((other) => other.isOnce || other.verb !== verb || other.plural !== plural);
    this.#faults.push({ verb, plural, fault, isOnce: false });
  }

  verbs(): string[] {
    return this.calls.map(({ verb }) => verb);
  }

  /** Writes the object without a request or a precondition; the watches do not show a hidden write. */
  add<T extends KubernetesObject>(resource: Resource<T>, object: T, { hidden = false } = {}): T {
    const lag = this.lag;
    this.lag = lag || hidden;
    const saved = this.#save(resource, { kind: resource.kind, ...object });
    this.lag = lag;
    return saved;
  }

  read<T extends KubernetesObject>(resource: Resource<T>, name: string, namespace = this.namespace): T {
    return this.#held(resource, { namespace, name });
  }

  has(resource: Resource<KubernetesObject>, name: string): boolean {
    return this.#objects.has(this.#path(resource, { name }));
  }

  all<T extends KubernetesObject>({ plural }: Resource<T>): T[] {
    return [...this.#objects.values()].flatMap((held) => (held.plural === plural ? [held.object as T] : []));
  }

  /** Removes the object, finalizers or not, without a request; `from` one side alone, as where a watch lags. */
  remove(
    resource: Resource<KubernetesObject>,
    name: string,
    { from = "both", namespace = this.namespace }: { from?: "api" | "watches" | "both"; namespace?: string } = {},
  ): void {
    const object = this.read(resource, name, namespace);
    if (from !== "watches") this.#objects.delete(this.#path(resource, object.metadata));
    if (from !== "api") for (const watcher of this.#watchersOf(resource)) watcher.drop(object);
  }

  /** Shows the changes of a kind to come. */
  watch({ plural }: Resource<KubernetesObject>, watcher: Watcher): void {
    this.#watchers.push({ plural, watcher });
  }

  #watchersOf({ plural }: Resource<KubernetesObject>): Watcher[] {
    return this.#watchers.flatMap((one) => (one.plural === plural ? [one.watcher] : []));
  }

  #path(resource: Resource<KubernetesObject>, { namespace = this.namespace, name }: ObjectRef): string {
    return objectPath(resource, { namespace, name });
  }

  #held<T extends KubernetesObject>(resource: Resource<T>, ref: ObjectRef): T {
    const held = this.#objects.get(this.#path(resource, ref));
    if (held === undefined)
      throw new ApiError(`${resource.plural} "${ref.name}" not found`, { status: 404, reason: "NotFound" });
    return held.object as T;
  }

  /** @param isDryRun whether it only gives what it would write */
  #save<T extends KubernetesObject>(resource: Resource<T>, object: T, isDryRun = false): T {
    this.#version += 1;
    const path = this.#path(resource, object.metadata);
    const before: Body = this.#objects.get(path)?.object ?? object;
    const isSame = JSON.stringify(before.spec) === JSON.stringify((object as Body).spec);
    const { generation } = before.metadata;
    const metadata = {
      ...(resource.namespaced && { namespace: this.namespace }),
      ...{ uid: `uid-${this.#version}`, creationTimestamp: this.#timestamp() },
      ...object.metadata,
      generation: (generation ?? 0) + (isSame && generation !== undefined ? 0 : 1),
      resourceVersion: this.version,
    };
    const saved = { ...object, metadata };
    if (isDryRun) return saved;
    this.#objects.set(path, { plural: resource.plural, object: saved });
    if (!this.lag) for (const watcher of this.#watchersOf(resource)) watcher.put(saved);
    return saved;
  }

  #timestamp(): string {
    return `${new Date(this.now()).toISOString().slice(0, 19)}Z`;
  }

  async #answer<T>(request: Request, carryOut: () => T): Promise<T> {
    const { resource, dryRun, body, ...rest } = request;
    const call = { ...rest, kind: resource.plural, ...(body !== undefined && { body }), ...(dryRun && { dryRun }) };
    this.calls.push(call);
    if (this.outage !== undefined) throw this.outage;
    const met = this.#faults.find(({ verb, plural = call.kind }) => verb === call.verb && plural === call.kind);
    if (met?.isOnce) this.#faults.splice(this.#faults.indexOf(met), 1);
    if (met?.fault instanceof Error) throw met.fault;
    const pending = met?.fault(call);
    if (pending instanceof Promise) await pending;
    // A copy, so that a caller cannot change what is stored.
    return structuredClone(carryOut());
  }

  #check(held: KubernetesObject, { uid, resourceVersion }: DeleteOptions): void {
    const isOther =
      (uid !== undefined && uid !== held.metadata.uid) ||
      (resourceVersion !== undefined && resourceVersion !== held.metadata.resourceVersion);
    if (isOther) throw new ApiError("the object has been modified", { status: 409, reason: "Conflict" });
  }

  #client(): ClusterClient {
    const request = async ({ path }: TransportRequest): Promise<TransportResponse> => {
      const body = JSON.stringify(this.#objects.get(path)?.object ?? {});
      return { status: 200, headers: { date: new Date(this.now()).toUTCString() }, body: Buffer.from(body) };
    };
    return {
      get: (resource, ref) => this.#answer({ verb: "get", resource, name: ref.name }, () => this.#held(resource, ref)),
      list: (resource, { namespace, labelSelector, fieldSelector } = {}) => {
        const body = labelSelector ?? fieldSelector;
        return this.#answer({ verb: "list", resource, name: resource.plural, body }, () => ({
          metadata: { resourceVersion: this.version },
          items: this.all(resource).filter(
            (object) =>
              (namespace === undefined || object.metadata.namespace === namespace) &&
              selects(labelSelector, (key) => object.metadata.labels?.[key]) &&
              selects(fieldSelector, (key) =>
                key.split(".").reduce<unknown>((of, field) => (isObject(of) ? of[field] : undefined), object),
              ),
          ),
        }));
      },
      create: (resource, object, { dryRun } = {}) => {
        const { name } = object.metadata;
        return this.#answer({ verb: "create", resource, name, body: object, dryRun }, () => {
          if (this.#objects.has(this.#path(resource, object.metadata)))
            throw new ApiError(`"${name}" already exists`, { status: 409, reason: "AlreadyExists" });
          return this.#save(resource, { kind: resource.kind, ...object }, dryRun);
        });
      },
      replace: (resource, object, { dryRun } = {}) => {
        const { name } = object.metadata;
        return this.#answer({ verb: "replace", resource, name, body: object, dryRun }, () => {
          this.#check(this.#held(resource, object.metadata), object.metadata);
          return this.#save(resource, object, dryRun);
        });
      },
      patch: (resource, ref, { body, type, subresource }) =>
        this.#answer({ verb: "patch", resource, name: ref.name, body }, () => {
          const held = this.#held(resource, ref);
          if (type === "json") {
            const after = patched(held, body as Parameters<typeof patched>[1]);
            this.#check(held, after.metadata);
            return this.#save(resource, after);
          }
          const { status, ...others } = body as Partial<Body>;
          const { metadata } = others;
          this.#check(held, metadata ?? {});
          // A status of our kinds is written alone; that of a kind of Kubernetes takes labels and annotations with it.
          const ofStatus = resource.group === API_GROUP ? { status } : { status, metadata };
          return this.#save(resource, merged(held, subresource === "status" ? ofStatus : others));
        }),
      apply: (resource, object) => {
        const { name } = object.metadata;
        return this.#answer({ verb: "apply", resource, name, body: object }, () => {
          const before = this.#objects.get(this.#path(resource, object.metadata))?.object;
          const after = merged<typeof object>({ kind: resource.kind, ...before }, withoutEmptyLists(object));
          // As a server does: what changes nothing is no write.
          return isDeepStrictEqual(after, before) ? after : this.#save(resource, after);
        });
      },
      delete: (resource, ref, options = {}) =>
        this.#answer({ verb: "delete", resource, name: ref.name, body: options }, () => {
          const held = this.#held(resource, ref);
          this.#check(held, options);
          if ((held.metadata.finalizers ?? []).length > 0) {
            const metadata = { ...held.metadata, deletionTimestamp: this.#timestamp() };
            return this.#save(resource, { ...held, metadata });
          }
          this.#version += 1;
          this.#objects.delete(this.#path(resource, ref));
          const last = { ...held, metadata: { ...held.metadata, resourceVersion: this.version } };
          if (!this.lag) for (const watcher of this.#watchersOf(resource)) watcher.drop(last);
          return undefined;
        }),
      request,
      transport: {
        request,
        stream: () => Promise.reject(new Error("Cannot stream from the API in memory: use `watch`")),
        now: Date.now,
        dropIdle: () => undefined,
        close: () => undefined,
      },
    };
  }
}

/** Whether each term of a selector, `key=value` or `key`, holds. */
function selects(selector: string | undefined, lookUp: (key: string) => unknown): boolean {
  return (selector?.split(",") ?? []).every((term) => {
    const [key = "", value] = term.split("=");
    return value === undefined ? lookUp(key) !== undefined : lookUp(key) === value;
  });
}

/** A JSON merge patch, RFC 7396. */
function merged<T>(before: unknown, patch: unknown): T {
  if (!isObject(patch)) return patch as T;
  const after: Record<string, unknown> = isObject(before) ? { ...before } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete after[key];
    else if (value !== undefined) after[key] = merged(after[key], value);
  }
  return after as T;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A JSON patch, RFC 6902, of operations that set a field. */
function patched<T>(before: T, operations: readonly { path: string; value: unknown }[]): T {
  const after = structuredClone(before);
  for (const { path, value } of operations) {
    const [, ...fields] = path.split("/");
    const last = fields.pop() ?? "";
    const at = fields.reduce<unknown>((of, field) => (isObject(of) ? of[field] : undefined), after);
    if (!isObject(at)) throw new ApiError(`${path} does not exist`, { status: 422, reason: "Invalid" });
    at[last] = value;
  }
  return after;
}

/** As a server stores the spec of a network policy. */
function withoutEmptyLists<T extends Body>(object: T): T {
  if (!isObject(object.spec)) return object;
  const kept = Object.entries(object.spec).filter(([, value]) => !(Array.isArray(value) && value.length === 0));
  return { ...object, spec: Object.fromEntries(kept) };
}
