import { persistentVolumeClaims } from "../../crds/client/built-in-resources.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import type { SnapshotsContext } from "./context.ts";

/**
 * Whether the store can be asked for archives. A volume is created with the helper pod, for the first workload that
 * saves files; object storage always exists.
 */
export function hasStore({ config, informers }: Pick<SnapshotsContext, "config" | "informers">): boolean {
  return config.snapshots.store.place.kind === "s3" || informers.helperPods.store.size > 0;
}

/**
 * Whether archives can exist, also while the helper pod is being replaced. Asks the API server for the volume, unless
 * the answer is known.
 */
export async function mayHaveArchives(context: SnapshotsContext): Promise<boolean> {
  if (hasStore(context)) return true;
  const { helperStart } = context;
  helperStart.hasVolume ??= await hasVolume(context);
  return helperStart.hasVolume;
}

/** Asks the API server whether the snapshots volume exists. */
export async function hasVolume({ cluster }: SnapshotsContext): Promise<boolean> {
  return (await cluster(persistentVolumeClaims).named(SNAPSHOTS_NAME).find()) !== undefined;
}
