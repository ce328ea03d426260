import type { OperatorContext } from "../context.ts";

/**
 * Whether archives can be there at all: a volume is made with the helper pod, for the first workload that keeps files;
 * object storage is there.
 */
export function hasStore({ config, informers }: Pick<OperatorContext, "config" | "informers">): boolean {
  return config.snapshots.store.place.kind === "s3" || informers.helperPods.store.size > 0;
}
