import type { KubernetesObject } from "./kubernetes.ts";

/** One kind of object as the API server serves it: where its URL is, and (in `T` alone) what its objects look like. */
export interface Resource<T extends KubernetesObject> {
  /** The API group; `""` for the core group. */
  readonly group: string;
  readonly version: string;
  /** The plural in lower case, as it stands in the URL. */
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Whether lists and watches bring the metadata alone. @default false */
  readonly metadataOnly?: boolean;
  /**
   * Takes out of the JSON of lists and watch events, in place, what the program does not read, before it is parsed.
   * @default it is parsed whole
   */
  readonly cut?: (json: Buffer) => Buffer;
  /** Never set: carries the type of the objects. */
  readonly object?: T;
}

/**
 * The same resource, of which lists and watches bring `metadata` and nothing else: what the objects hold never leaves
 * the API server.
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

export interface ResourceTarget {
  readonly namespace?: string | undefined;
  /** Without a name the path is the collection's. */
  readonly name?: string | undefined;
  readonly subresource?: string | undefined;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
}

/**
 * The URL path of an object or of a collection, with its query; what is undefined in the query is left out.
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

/** A name as part of a path; one that a server would resolve to another path would reach another object. */
function segment(name: string): string {
  if (name === "" || name === "." || name === "..")
    throw new TypeError(`Cannot address an object: "${name}" is no name`);
  return encodeURIComponent(name);
}

/**
 * The path of exactly one object.
 *
 * @throws TypeError when the name is missing, or the namespace of a namespaced one: the path would be a whole
 *   collection's
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
 * The media type that a list or a watch of a resource asks for; undefined for the usual one.
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
