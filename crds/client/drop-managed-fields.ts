import type { KubernetesObject, ObjectMeta } from "../kubernetes.ts";

/** Takes the record of who set which field off an object in place: often a third of it, and nobody here reads it. */
export function dropManagedFields<T extends KubernetesObject>(object: T): T {
  const metadata: (ObjectMeta & { managedFields?: unknown }) | undefined = object.metadata;
  if (metadata?.managedFields === undefined) return object;
  // A copy, since `delete` would turn the object into a hash table, which is larger and slower.
  const { managedFields: _, ...rest } = metadata;
  object.metadata = rest;
  return object;
}
