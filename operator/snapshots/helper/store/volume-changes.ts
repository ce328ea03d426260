import { checkSnapshotKey, type SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { Turns } from "./turns.ts";
import { placesOf, removeIfEmpty } from "./volume-files.ts";
import { withVolumeLock } from "./volume-lock.ts";
import type { VolumeOwner } from "./volume-owner.ts";
import type { VolumeState } from "./volume-state.ts";
import type { VolumeTenants } from "./volume-tenants.ts";

/**
 * Changes what a tenant has, in its turn, and then deletes its folder if it is empty.
 *
 * @param work.locked is done under the lock of the folder
 * @param work.missing is done if the tenant has no folder
 */
export type ChangeIn = <T>(
  key: SnapshotKey,
  work: { signal: AbortSignal; locked: () => Promise<T>; missing: () => T },
) => Promise<T>;

export function createVolumeChanges(options: {
  state: Pick<VolumeState, "root" | "checkRoot" | "isMarked">;
  tenants: Pick<VolumeTenants, "has">;
  owner: Pick<VolumeOwner, "check">;
  /** The uid of the helper pod. */
  podUid: string | undefined;
  turns: Turns;
}): ChangeIn {
  const { state, tenants, owner, podUid, turns } = options;
  return async (key, { signal, locked, missing }) => {
    checkSnapshotKey(key);
    await state.checkRoot();
    const { folder } = placesOf(state.root, key);
    return await turns.take(key.tenantId, async () => {
      if (!(await tenants.has(key.tenantId))) {
        // A server that is not the owner any more does not see the other one's saves.
        if (await state.isMarked()) await owner.check();
        return missing();
      }
      const result = await withVolumeLock(folder, { signal, podUid }, locked);
      await removeIfEmpty(folder);
      return result;
    });
  };
}
