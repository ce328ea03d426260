import type { KubernetesObject, OwnerReference } from "./kubernetes.ts";

/** A kind of object that the API server serves: its URL, and in `T` the type of its objects. */
export interface Resource<T extends KubernetesObject> {
  /** The API group; `""` for the core group. */
  readonly group: string;
  readonly version: string;
  /** The plural in lower case, as in the URL. */
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Whether lists and watches return only the metadata. @default false */
  readonly metadataOnly?: boolean;
  /**
   * Removes what the program does not read from the JSON of lists and watch events, in place, before it is parsed.
   * @default nothing is removed
   */
  readonly cut?: (json: Buffer) => Buffer;
  /** Never set: carries the type of the objects. */
  readonly object?: T;
}

/**
 * The same resource, but lists and watches return only `metadata`: the content of the objects never leaves the API
 * server.
 */
export function metadataOf({
  group,
  version,
  plural,
  kind,
  namespaced,
}: Resource<KubernetesObject>): Resource<KubernetesObject> {
  return { group, version, plural, kind, namespaced, metadataOnly: true };
}

/** Declares a resource; `namespaced` is true by default. */
export function defineResource<T extends KubernetesObject>(resource: {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced?: boolean;
}): Resource<T> {
  return { ...resource, namespaced: resource.namespaced ?? true };
}

/** Makes an object a dependent of its owner: the cluster's garbage collector deletes it after the owner. */
export function ownerReference<T extends KubernetesObject>(
  { group, version, kind }: Resource<T>,
  { metadata: { name, uid = "" } }: T,
): OwnerReference {
  return { apiVersion: `${group}/${version}`, kind, name, uid };
}

export interface ResourceTarget {
  readonly namespace?: string | undefined;
  /** Without a name, the path is that of the collection. */
  readonly name?: string | undefined;
  readonly subresource?: string | undefined;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
}

/**
 * The URL path of an object or of a collection, with its query. Undefined parameters are omitted.
 *
 * Follows https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
 */
export function resourcePath<T extends KubernetesObject>(resource: Resource<T>, target: ResourceTarget): string {
  const { group, version, plural, namespaced } = resource;
  let path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  if (namespaced && target.namespace !== undefined) path += `/namespaces/${segment(target.namespace)}`;
  path += `/${plural}`;
  if (target.name !== undefined) path += `/${segment(target.name)}`;
  if (target.subresource !== undefined) path += `/${target.subresource}`;
  let separator = "?";
  for (const [key, value] of Object.entries(target.query ?? {})) {
    if (value === undefined) continue;
    path += `${separator}${key}=${encodeURIComponent(value)}`;
    separator = "&";
  }
  return path;
}

/**
 * Checks a name that is part of a path. A server resolves names such as `..` to another path, and so to another object.
 */
function segment(name: string): string {
  if (name === "" || name === "." || name === "..")
    throw new TypeError(`Cannot address an object: "${name}" is not a valid name`);
  return encodeURIComponent(name);
}

/**
 * The path of exactly one object.
 *
 * @throws TypeError if the name is missing, or the namespace of a namespaced object: the path would be that of a
 *   collection
 */
export function objectPath<T extends KubernetesObject>(
  resource: Resource<T>,
  target: ResourceTarget & { readonly name: string },
): string {
  if (!target.name) throw new TypeError(`Cannot address a ${resource.kind}: it has no name`);
  if (resource.namespaced && !target.namespace)
    throw new TypeError(`Cannot address the ${resource.kind} ${target.name}: it has no namespace`);
  return resourcePath(resource, target);
}

/**
 * The media type that a list or a watch of a resource requests; undefined for the default.
 *
 * Follows https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
 */
export function acceptedType<T extends KubernetesObject>(
  { metadataOnly }: Resource<T>,
  verb: "list" | "watch",
): string | undefined {
  if (!metadataOnly) return undefined;
  return `application/json;as=PartialObjectMetadata${verb === "list" ? "List" : ""};g=meta.k8s.io;v=v1`;
}
