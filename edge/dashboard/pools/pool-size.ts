import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** The number of pods that a pool aims for. */
export function poolSize({ spec, status }: Pick<ApiTypes["Pool"], "spec" | "status">): number {
  return spec.size ?? status.desired ?? spec.minSize ?? 1;
}

/** Between which sizes the operator chooses; undefined for a pool of fixed size. */
export function limitWords({ spec, status }: Pick<ApiTypes["Pool"], "spec" | "status">): string | undefined {
  if (spec.maxSize === undefined || spec.size !== undefined) return undefined;
  const { minSize = spec.minSize ?? 1 } = status.scaling ?? {};
  return `${minSize} to ${spec.maxSize}`;
}
