import type { KubernetesObject } from "../kubernetes.ts";

/** The key of an object in stores and queues: `namespace/name`, or the name alone for what has no namespace. */
export function keyOf(object: KubernetesObject): string {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? name : `${namespace}/${name}`;
}
