import type { KubernetesList, KubernetesObject, ObjectMeta } from "../kubernetes.ts";
import type { Resource } from "../resource.ts";
import { type ApiError, ifFound, isConflict, isExpired, isNotFound } from "./api-error.ts";
import type {
  CallOptions,
  ClusterClient,
  DeleteOptions,
  ListOptions,
  PatchOptions,
  WriteOptions,
} from "./cluster-client.ts";

/**
 * The objects of a cluster, by kind.
 *
 * The answer to each write goes into the cache of its kind. A call throws an `ApiError` if the server refuses it, and a
 * `NetworkError` without a response.
 *
 * @example
 *   await cluster(networkPolicies).apply(policy);
 *   await cluster(claims).of(claim).patchStatus({ phase: "Active" });
 *   await cluster(pods).named(name).find();
 */
export type Cluster = <T extends KubernetesObject>(resource: Resource<T>) => Objects<T>;

/** The objects of one kind in one namespace. */
export interface Objects<T extends KubernetesObject> {
  /** The same kind in another namespace. */
  in(namespace: string): Objects<T>;
  /** The object that has the name. Its writes have no precondition. */
  named(name: string): NamedObject<T>;
  /** The given object. Its writes have a precondition. */
  of(object: KubernetesObject): KnownObject<T>;
  /** All objects, read in pages, or the first `limit`. */
  list(options?: ListQuery): Promise<ObjectList<T>>;
  create(object: T, options?: WriteOptions): Promise<T>;
  /**
   * Server-side apply: https://kubernetes.io/docs/reference/using-api/server-side-apply/
   *
   * Takes over the fields that other managers own, unless the call names a field manager.
   */
  apply(object: T, options?: CallOptions & { readonly fieldManager?: string }): Promise<T>;
}

export interface ReadOptions extends CallOptions {
  /** Whether the result goes into the cache. @default false */
  readonly refresh?: boolean | undefined;
}

export type ListQuery = Omit<ListOptions, "namespace" | "continue"> & ReadOptions;

export interface ObjectList<T> {
  readonly items: T[];
  /** The state of the cluster that the list shows. */
  readonly resourceVersion: string | undefined;
}

/** An object by its name. */
export interface NamedObject<T extends KubernetesObject> {
  /** @throws ApiError with status 404 if it does not exist */
  get(options?: ReadOptions): Promise<T>;
  /** As `get`; undefined if it does not exist. */
  find(options?: ReadOptions): Promise<T | undefined>;
  /** A JSON merge patch, RFC 7396. */
  patch(changes: MergePatch<T>, options?: PatchTarget): Promise<T>;
  /** A merge patch of the status, by the subresource. */
  patchStatus(status: MergePatch<StatusOf<T>>, options?: CallOptions): Promise<T>;
  /** A JSON patch, RFC 6902; a `test` operation is its precondition. */
  patchJson(operations: readonly JsonOperation[], options?: PatchTarget): Promise<T>;
  delete(options?: Omit<DeleteOptions, "uid" | "resourceVersion">): Promise<Deletion<T>>;
}

/** An object that was read. A write fails with a conflict if its precondition does not hold. */
export interface KnownObject<T extends KubernetesObject>
  extends Omit<NamedObject<T>, "patch" | "patchStatus" | "patchJson" | "delete"> {
  /** @param options.precondition @default "resourceVersion" */
  patch(changes: MergePatch<T>, options?: PatchTarget & Conditional): Promise<T>;
  /** @param options.precondition @default "resourceVersion" */
  patchStatus(status: MergePatch<StatusOf<T>>, options?: CallOptions & Conditional): Promise<T>;
  /** Writes the whole object, if it has the resourceVersion that was read. */
  replace(object: T, options?: WriteOptions): Promise<T>;
  /** @param options.precondition `resourceVersion` includes `uid`. @default "uid" */
  delete(options?: Omit<DeleteOptions, "uid" | "resourceVersion"> & Conditional): Promise<Deletion<T>>;
}

interface PatchTarget extends CallOptions {
  readonly subresource?: PatchOptions["subresource"];
}

interface Conditional {
  /** `uid`: the object is still this one; `resourceVersion`: it has not changed either. */
  readonly precondition?: "uid" | "resourceVersion";
}

export type JsonOperation = Readonly<{ op: "add" | "replace" | "test"; path: string; value: unknown }>;

/** The outcome of a deletion. It is not an error if the object is gone, or another object has its name. */
export type Deletion<T> =
  /** Finalizers or its grace period keep it, in this state. */
  | { readonly outcome: "deleting"; readonly object: T; readonly error?: undefined }
  | { readonly outcome: "deleted"; readonly error?: undefined }
  | { readonly outcome: "notFound" | "conflict"; readonly error: ApiError };

/** The fields to change: `null` removes one, a list is written whole. */
export type MergePatch<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [Field in keyof T]?: MergePatch<T[Field]> | null | undefined } & (T extends ObjectMeta
        ? { readonly managedFields?: unknown }
        : unknown)
    : T;

type StatusOf<T> = T extends { status?: infer Status } ? NonNullable<Status> : never;

/** The cache for the answers to writes of a kind. */
export interface AnswerCache {
  readonly resource: Resource<KubernetesObject>;
  put(object: KubernetesObject): void;
}

export function answerCache<T extends KubernetesObject>(
  resource: Resource<T>,
  cache: { put(object: T): void } | undefined,
): AnswerCache {
  return { resource, put: (object) => cache?.put(object as T) };
}

const PAGE_SIZE = 500;
const MAX_TRIES = 3;

/**
 * @param options.namespace of the objects, unless a call names another
 * @param options.fieldManager of applied objects
 */
export function createCluster({
  client,
  namespace: ownNamespace,
  fieldManager: ownFieldManager,
  caches = [],
}: {
  client: ClusterClient;
  namespace: string;
  fieldManager: string;
  caches?: readonly AnswerCache[];
}): Cluster {
  const cacheOf = new Map(caches.map((cache) => [idOf(cache.resource), cache]));
  return (resource) => objectsIn(resource, ownNamespace);

  function objectsIn<T extends KubernetesObject>(resource: Resource<T>, namespace: string): Objects<T> {
    const cache = cacheOf.get(idOf(resource));

    function store(object: T): T {
      // The watch may have reported its end already.
      if (!hasEnded(object)) cache?.put(object);
      return object;
    }

    async function list({ limit, refresh, ...query }: ListQuery = {}): Promise<ObjectList<T>> {
      for (let tries = 1; ; tries += 1) {
        try {
          const pages = await listPages({ ...query, namespace, limit: limit ?? PAGE_SIZE }, limit !== undefined);
          const items = pages.flatMap((page) => page.items);
          if (refresh) for (const object of items) cache?.put(object);
          return { items, resourceVersion: pages[0]?.metadata.resourceVersion };
        } catch (error) {
          // A list expires if reading its pages takes too long.
          if (!isExpired(error) || tries === MAX_TRIES) throw error;
        }
      }
    }

    async function listPages(query: ListOptions, isOnePage: boolean): Promise<KubernetesList<T>[]> {
      const pages: KubernetesList<T>[] = [];
      let next: string | undefined;
      do {
        const page = await client.list(resource, { ...query, continue: next });
        pages.push(page);
        next = page.metadata.continue || undefined;
      } while (next !== undefined && !isOnePage);
      return pages;
    }

    return {
      in: (other) => objectsIn(resource, other),
      named: (name) => named({ namespace, name }),
      of: known,
      list,
      async create(object, options) {
        const created = await client.create(resource, object, options);
        return options?.dryRun ? created : store(created);
      },
      async apply(object, { fieldManager, ...options } = {}) {
        const manager = {
          fieldManager: fieldManager ?? ownFieldManager,
          ...(fieldManager === undefined && { force: true }),
        };
        return store(await client.apply(resource, object, { ...options, ...manager }));
      },
    };

    function named(ref: { namespace: string; name: string }): NamedObject<T> {
      return {
        ...reads(ref),
        patch: (changes, options) => patch(ref, { ...options, type: "merge", body: changes }),
        patchStatus: (status, options) =>
          patch(ref, { ...options, type: "merge", subresource: "status", body: { status } }),
        patchJson: (operations, options) => patch(ref, { ...options, type: "json", body: operations }),
        delete: (options) => remove(ref, options),
      };
    }

    function known({ metadata }: KubernetesObject): KnownObject<T> {
      const { name, namespace: of = namespace } = metadata;
      const ref = { namespace: of, name };

      return {
        ...reads(ref),
        async patch(changes, { precondition = "resourceVersion", ...options } = {}) {
          const changed = (changes as { metadata?: object }).metadata;
          const body = { ...changes, metadata: { ...changed, [precondition]: required(precondition) } };
          return patch(ref, { ...options, type: "merge", body });
        },
        async patchStatus(status, { precondition = "resourceVersion", ...options } = {}) {
          const body = { metadata: { [precondition]: required(precondition) }, status };
          return patch(ref, { ...options, type: "merge", subresource: "status", body });
        },
        async replace(object, options) {
          const condition = { resourceVersion: required("resourceVersion") };
          const whole = { ...object, metadata: { ...object.metadata, ...condition } };
          const replaced = await client.replace(resource, whole, options);
          return options?.dryRun ? replaced : store(replaced);
        },
        async delete({ precondition = "uid", ...options } = {}) {
          const conditions = {
            uid: required("uid"),
            ...(precondition !== "uid" && { [precondition]: required(precondition) }),
          };
          return remove(ref, { ...options, ...conditions });
        },
      };

      /** An undefined value would be no precondition. */
      function required(precondition: "uid" | "resourceVersion"): string {
        const value = metadata[precondition];
        if (!value) throw new TypeError(`Cannot write the ${resource.kind} ${name}: its ${precondition} is unknown`);
        return value;
      }
    }

    function reads(ref: { namespace: string; name: string }): Pick<NamedObject<T>, "get" | "find"> {
      async function get({ refresh, ...options }: ReadOptions = {}): Promise<T> {
        const object = await client.get(resource, ref, options);
        if (refresh) cache?.put(object);
        return object;
      }
      return { get, find: (options) => ifFound(get(options)) };
    }

    async function patch(ref: { namespace: string; name: string }, options: PatchOptions): Promise<T> {
      return store(await client.patch(resource, ref, options));
    }

    async function remove(
      ref: { namespace: string; name: string },
      options: DeleteOptions | undefined,
    ): Promise<Deletion<T>> {
      try {
        const object = await client.delete(resource, ref, options);
        return object === undefined ? { outcome: "deleted" } : { outcome: "deleting", object: store(object) };
      } catch (error) {
        if (isNotFound(error)) return { outcome: "notFound", error };
        if (options?.uid !== undefined && isConflict(error)) return { outcome: "conflict", error };
        throw error;
      }
    }
  }
}

/** Whether a write has removed the last finalizer of an object that was deleted. */
function hasEnded({ metadata }: KubernetesObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers = [] } = metadata;
  return deletionTimestamp !== undefined && !deletionGracePeriodSeconds && finalizers.length === 0;
}

function idOf({ group, plural }: Resource<KubernetesObject>): string {
  return `${group}/${plural}`;
}
