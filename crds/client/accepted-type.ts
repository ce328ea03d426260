import type { KubernetesObject } from "../kubernetes.ts";
import type { Resource } from "../resource.ts";

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
