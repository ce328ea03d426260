import { randomBytes } from "node:crypto";
import { readlink, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { ifThere } from "./volume-files.ts";

const OWNER = ".helper";

/**
 * Which server changes the volume: the one that was started last. A pod that was deleted by force can go on for a while
 * beside its successor, and what was only asked of one of them the other does not know.
 */
export interface VolumeOwner {
  /** To be called at the start, on a volume that is known to be the right one; else it is done with the first change. */
  take(): Promise<void>;
  /** To be called under the lock of what is changed. @throws StoreError when another server has been started since */
  check(): Promise<void>;
}

export function createVolumeOwner(root: string): VolumeOwner {
  const path = join(root, OWNER);
  const id = randomBytes(16).toString("hex");
  let taking: Promise<void> | undefined;

  async function write(): Promise<void> {
    const partial = `${path}.${id}`;
    try {
      // A file would need a block, and on a full volume nothing could be erased.
      await symlink(id, partial);
      await rename(partial, path);
    } catch (error) {
      await rm(partial, { force: true });
      throw error;
    }
  }

  function take(): Promise<void> {
    taking ??= write().catch((error: unknown) => {
      taking = undefined;
      throw error;
    });
    return taking;
  }

  return {
    take,
    async check() {
      await take();
      let owner = await ifThere(readlink(path));
      if (owner === undefined) {
        // A volume that was put in the place of the other, as after a restore of a backup.
        await write();
        owner = await readlink(path);
      }
      if (owner === id) return;
      throw new StoreError("another snapshots server has taken over the volume; ask that one", { isTransient: true });
    },
  };
}
