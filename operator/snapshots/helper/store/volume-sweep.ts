import { lstat, readdir, rm, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isTenantId } from "../../../../crds/names.ts";
import { checkSnapshotKey, type SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { Turns } from "./turns.ts";
import { ifFolder, ifThere, placesOf, readStored, recordPath, removeIfEmpty } from "./volume-files.ts";
import { isTaken, type VolumeOwner } from "./volume-owner.ts";
import { RECORDS_FOLDER } from "./volume-records.ts";
import type { VolumeState } from "./volume-state.ts";
import type { VolumeTenants } from "./volume-tenants.ts";

const LEFTOVER_MS = 24 * 3_600_000;
const OWN: readonly string[] = [".contexts", RECORDS_FOLDER];

/** The calls that visit all archives. */
export interface VolumeSweep {
  /** Notes that archives are in use now. */
  touch(keys: readonly SnapshotKey[]): Promise<void>;
  /** Deletes what interrupted calls have left behind. */
  tidy(): Promise<void>;
  /**
   * Call this at the start of the program. Deletes earlier uploads, since their clients are gone. Moves back files that
   * an earlier process was about to delete.
   *
   * @param isOurs whether this process has received a file
   */
  dropFormer(isOurs: (path: string) => boolean): Promise<void>;
}

export function createVolumeSweep(options: {
  state: VolumeState;
  tenants: Pick<VolumeTenants, "entries">;
  owner: Pick<VolumeOwner, "giveBack">;
  turns: Turns;
  now: () => number;
}): VolumeSweep {
  const { state, tenants, owner, turns, now } = options;
  const { root } = state;

  /** The folders of tenants, of build contexts and of usage records. */
  async function* foldersOf(): AsyncGenerator<string> {
    for await (const { name } of tenants.entries()) if (isTenantId(name) || OWN.includes(name)) yield name;
  }

  async function filesIn(folder: string, isOne: (name: string) => boolean): Promise<string[]> {
    const found = (await ifFolder(readdir(join(root, folder), { recursive: true, withFileTypes: true }))) ?? [];
    const files = found.filter((entry) => !entry.isDirectory() && isOne(entry.name));
    return files.map(({ parentPath, name }) => join(parentPath, name));
  }

  /** A checkpoint can be the first archive of a key. If it was interrupted, its folder is empty. */
  async function dropEmptyVersions(tenant: string): Promise<void> {
    const versions = join(root, tenant, ".versions");
    for (const workload of (await ifFolder(readdir(versions))) ?? [])
      await ifFolder(removeIfEmpty(join(versions, workload)));
    await ifFolder(removeIfEmpty(versions));
  }

  return {
    async touch(keys) {
      for (const key of keys) checkSnapshotKey(key);
      const time = now() / 1000;
      for (const key of keys) {
        const { archive } = placesOf(root, key);
        const stored = await readStored(archive);
        if (stored === undefined) continue;
        const { metadata, isShared } = stored;
        if (metadata !== undefined) await ifThere(utimes(recordPath(archive, metadata.sha256), time, time));
        // An earlier version reads the time of the archive itself. A shared file would change the copy's time too.
        if (metadata === undefined || !isShared) await ifThere(utimes(archive, time, time));
      }
    },

    async tidy() {
      for await (const name of foldersOf()) {
        for (const path of await filesIn(name, (file) => file.endsWith(".partial") || file.startsWith(".lock"))) {
          // Locks are links without a target, so use lstat. A missing one has been released.
          const found = await ifThere(lstat(path));
          if (found !== undefined && now() - found.mtimeMs > LEFTOVER_MS) await rm(path, { force: true });
        }
      }
    },

    async dropFormer(isOurs) {
      const isPartial = (file: string): boolean => file.endsWith(".partial");
      for await (const name of foldersOf()) {
        if ((await filesIn(name, (file) => isPartial(file) || isTaken(file))).length === 0) continue;
        // Within a turn, no file is being renamed.
        await turns.take(name, async () => {
          for (const folder of new Set((await filesIn(name, isTaken)).map(dirname))) await owner.giveBack(folder);
          for (const path of await filesIn(name, isPartial)) {
            if (isOurs(path)) continue;
            await rm(path, { force: true });
            await removeIfEmpty(dirname(path));
          }
          await dropEmptyVersions(name);
          await removeIfEmpty(join(root, name));
        });
      }
    },
  };
}
