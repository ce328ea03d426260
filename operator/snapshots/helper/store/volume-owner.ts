import { randomBytes } from "node:crypto";
import type { Stats } from "node:fs";
import { link, lstat, readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { StoreConflict, StoreError } from "../../../../crds/snapshots/snapshot-store.ts";
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
  /**
   * Deletes a file, under the same lock. One that stands still between its check and its deletion can find another
   * server's file there, so what it takes out of its place it puts back where it is not the owner any more.
   *
   * @param isSeen asked of what was taken out of its place, under its name by then. Default: it is, whatever it is
   * @throws StoreError as `check` does, StoreConflict where it is not the one that was seen
   */
  remove(path: string, isSeen?: (aside: string) => Promise<boolean>): Promise<void>;
  /**
   * Gives files their names back which another server took out of their places to delete, and did not: one that is gone
   * may not have been the owner any more when it did. Where another file has the place by now, that one stays.
   *
   * @param name of the one file that is meant. @default all of the folder
   * @throws StoreError where there are such files and this is not the owner
   */
  giveBack(folder: string, name?: string): Promise<void>;
  /**
   * Deletes what any server took out of places in the folder. To be called under the lock of what is there.
   *
   * @param isMeant asked with the names that the files had
   */
  dropTaken(folder: string, isMeant: (name: string) => boolean): Promise<void>;
}

/** What a file is called while it is out of its place. */
const TAKEN = /^(?<name>.+)\.[0-9a-f]{32}\.taken$/;

export function createVolumeOwner(root: string): VolumeOwner {
  const path = join(root, OWNER);
  const id = randomBytes(16).toString("hex");
  /** What this server is about to delete at this moment. */
  const removing = new Set<string>();
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

  async function check(): Promise<void> {
    await take();
    let name = await ifThere(readlink(path));
    if (name === undefined) {
      // A volume that was put in the place of the other, as after a restore of a backup.
      await write();
      name = await readlink(path);
    }
    if (name === id) return;
    throw new StoreError("another snapshots server has taken over the volume; ask that one", { isTransient: true });
  }

  async function remove(file: string, isSeen?: (aside: string) => Promise<boolean>): Promise<void> {
    await owner.check();
    const aside = `${file}.${randomBytes(16).toString("hex")}.taken`;
    removing.add(aside);
    try {
      await removeBy(file, aside, isSeen);
    } finally {
      removing.delete(aside);
    }
  }

  async function removeBy(
    file: string,
    aside: string,
    isSeen: ((aside: string) => Promise<boolean>) | undefined,
  ): Promise<void> {
    try {
      await rename(file, aside);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
      // On a full volume there can be no room for another name.
      await rm(file, { recursive: true, force: true });
      return;
    }
    let taken: Stats | undefined;
    try {
      taken = await ifThere(lstat(aside));
      if (taken !== undefined && (await isSeen?.(aside)) === false) {
        throw new StoreConflict(`${file} is another than when it was looked at`);
      }
      await owner.check();
      await rm(aside, { recursive: true, force: true });
    } catch (error) {
      await putBack(aside, file);
      throw error;
    }
    // One that took itself for the owner has given it back meanwhile.
    const present = await ifThere(lstat(file));
    if (present !== undefined && (taken === undefined || present.ino === taken.ino)) await remove(file, isSeen);
  }

  /** What was taken out of places in the folder, with its name of before. */
  async function takenIn(folder: string): Promise<{ aside: string; name: string }[]> {
    const names = (await ifThere(readdir(folder))) ?? [];
    return names.flatMap((taken) => {
      const { name } = TAKEN.exec(taken)?.groups ?? {};
      return name === undefined ? [] : [{ aside: join(folder, taken), name }];
    });
  }

  async function giveBack(folder: string, only?: string): Promise<void> {
    const taken = (await takenIn(folder)).filter(({ aside, name }) => !removing.has(aside) && (only ?? name) === name);
    if (taken.length === 0) return;
    await owner.check();
    for (const { aside, name } of taken) {
      await putBack(aside, join(folder, name));
      await rm(aside, { force: true });
    }
  }

  async function dropTaken(folder: string, isMeant: (name: string) => boolean): Promise<void> {
    for (const { aside, name } of await takenIn(folder)) {
      if (isMeant(name)) await rm(aside, { recursive: true, force: true });
    }
  }

  const owner = { take, check, remove, giveBack, dropTaken };
  return owner;
}

/** Gives a file its name back, where nothing else has it by now. */
async function putBack(aside: string, path: string): Promise<void> {
  try {
    await link(aside, path);
    await rm(aside, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    // A volume without hard links; or the other has deleted it with what was left behind.
    if ((await ifThere(lstat(path))) === undefined) await ifThere(rename(aside, path));
  }
}
