import type { KubernetesObject, ObjectMeta } from "../kubernetes.ts";

/** Takes `managedFields` off an object, in place, where they were not cut out of its JSON. */
export function dropManagedFields<T extends KubernetesObject>(object: T): T {
  const metadata: (ObjectMeta & { managedFields?: unknown }) | undefined = object.metadata;
  if (metadata?.managedFields === undefined) return object;
  // A copy, since `delete` would turn the object into a hash table, which is larger and slower.
  const { managedFields: _, ...rest } = metadata;
  object.metadata = rest;
  return object;
}
