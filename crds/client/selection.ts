import type { KubernetesObject } from "../kubernetes.ts";
import type { Resource } from "../resource.ts";

/** The part of a collection that a list-watch follows. */
export interface Selection<T extends KubernetesObject> {
  readonly resource: Resource<T>;
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}
