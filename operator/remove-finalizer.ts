import type { Cluster } from "../crds/client/cluster.ts";
import type { KubernetesObject } from "../crds/kubernetes.ts";
import type { Resource } from "../crds/resource.ts";

/**
 * Removes a finalizer of an object by a `PUT` of the whole object. A deleted object ends with its last finalizer.
 *
 * The API server checks a write first, and then deletes what has that name. In between, another program may end the
 * object, and a client create the next one of that name: a `PATCH` would delete that one. A `PUT` deletes only an
 * object with the same uid
 * (https://github.com/kubernetes/apiserver/blob/v0.34.10/pkg/registry/rest/update.go, `Preconditions`).
 *
 * @throws ApiError 409 if the object has changed since it was read, 404 if it is gone
 */
export async function removeFinalizer<T extends KubernetesObject>(
  { resource, object, finalizer }: { resource: Resource<T>; object: T; finalizer: string },
  cluster: Cluster,
): Promise<void> {
  const finalizers = object.metadata.finalizers?.filter((held) => held !== finalizer) ?? [];
  await cluster(resource)
    .of(object)
    .replace({ ...object, metadata: { ...object.metadata, finalizers } });
}
