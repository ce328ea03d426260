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
  /** Never set: carries the type of the objects. */
  readonly object?: T;
}

/** The same resource, of which lists and watches bring `metadata` and nothing else: what the objects hold never leaves the API server. */
export function metadataOf({
  group,
  version,
  plural,
  kind,
  namespaced,
}: Resource<KubernetesObject>): Resource<KubernetesObject> {
  return { group, version, plural, kind, namespaced, metadataOnly: true };
}

/** Declares a resource; `namespaced` is true unless told. */
export function defineResource<T extends KubernetesObject>(resource: {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced?: boolean;
}): Resource<T> {
  return { ...resource, namespaced: resource.namespaced ?? true };
}
