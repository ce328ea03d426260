import type { KubernetesObject } from "../kubernetes.ts";
import type { Resource } from "../resource.ts";
import { type ResourceTarget, resourcePath } from "./resource-path.ts";

/**
 * The path of exactly one object.
 *
 * @throws TypeError when the name is missing, or the namespace of a namespaced one: the path would be a whole collection's
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
