import type { Cluster, MergePatch } from "../crds/client/cluster.ts";
import type { KubernetesObject } from "../crds/kubernetes.ts";
import type { Resource } from "../crds/resource.ts";

/**
 * Removes a finalizer of an object. A deleted object ends with its last one.
 *
 * The last one is removed by a `PUT` of the whole object. The API server checks a write first and ends the object after
 * that. In between, another program may end it, and a client create the next object of that name. A `PATCH` would end
 * that one. By a `PUT` only an object with the same uid ends
 * (https://github.com/kubernetes/apiserver/blob/v0.34.10/pkg/registry/rest/update.go, `Preconditions`).
 *
 * @throws ApiError 409 if the object has changed since it was read, 404 if it is gone
 */
export async function removeFinalizer<T extends KubernetesObject>(
  { resource, object, finalizer }: { resource: Resource<T>; object: T; finalizer: string },
  cluster: Cluster,
): Promise<void> {
  const finalizers = object.metadata.finalizers?.filter((held) => held !== finalizer) ?? [];
  const known = cluster(resource).of(object);
  if (finalizers.length === 0) await known.replace({ ...object, metadata: { ...object.metadata, finalizers } });
  else await known.patch({ metadata: { finalizers } } as MergePatch<T>);
}
