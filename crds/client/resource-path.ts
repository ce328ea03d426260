import type { KubernetesObject } from "../kubernetes.ts";
import type { Resource } from "../resource.ts";

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
