import { persistentVolumeClaims } from "../../crds/client/built-in-resources.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import type { SnapshotsContext } from "./context.ts";

/**
 * Whether archives can be asked for at all: a volume is made with the helper pod, for the first workload that keeps
 * files; object storage is there.
 */
export function hasStore({ config, informers }: Pick<SnapshotsContext, "config" | "informers">): boolean {
  return config.snapshots.store.place.kind === "s3" || informers.helperPods.store.size > 0;
}

/**
 * Whether archives can be there, also while the helper pod is replaced. Asks the API server for the volume once, where
 * nothing else has told.
 */
export async function mayHaveArchives(context: SnapshotsContext): Promise<boolean> {
  if (hasStore(context)) return true;
  const { helperStart } = context;
  helperStart.hasVolume ??= await hasVolume(context);
  return helperStart.hasVolume;
}

/** Whether there is a snapshots volume, as the API server has it. */
export async function hasVolume({ cluster }: SnapshotsContext): Promise<boolean> {
  return (await cluster(persistentVolumeClaims).named(SNAPSHOTS_NAME).find()) !== undefined;
}
