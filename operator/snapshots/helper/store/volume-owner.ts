import { randomBytes } from "node:crypto";
import type { Stats } from "node:fs";
import { link, lstat, readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { StoreConflict, StoreError } from "../../../../crds/snapshots/snapshot-store.ts";
import { ifThere } from "./volume-files.ts";

const OWNER = ".helper";

/**
 * Which server may change the volume: the one that started last. A pod that was deleted by force can run for a while
 * beside its successor, and each would not see the other's calls.
 */
export interface VolumeOwner {
  /** Call this at the start, if the volume is known to be the right one. Otherwise the first change does it. */
  take(): Promise<void>;
  /** Call this under the lock of what is changed. @throws StoreError if another server has started since */
  check(): Promise<void>;
  /**
   * Deletes a file, under the same lock. A server that is suspended between its check and its deletion may find another
   * server's file. So it first moves the file aside, and moves it back if it is not the owner any more.
   *
   * @param isSeen called with the path of the moved file: whether it is the intended one. @default any file is
   * @throws StoreError as `check` does, StoreConflict if it is not the intended file
   */
  remove(path: string, isSeen?: (aside: string) => Promise<boolean>): Promise<void>;
  /**
   * Moves back files that another server moved aside and did not delete: it may not have been the owner any more. If
   * another file has the name now, that file stays.
   *
   * @param name of the only file to move back. @default all of the folder
   * @throws StoreError if there are such files and this server is not the owner
   */
  giveBack(folder: string, name?: string): Promise<void>;
  /**
   * Deletes the files in the folder that any server moved aside. Call this under their lock.
   *
   * @param isMeant called with the original name of a file
   */
  dropTaken(folder: string, isMeant: (name: string) => boolean): Promise<void>;
}

/** The name of a file that was moved aside. */
const TAKEN = /^(?<name>.+)\.[0-9a-f]{32}\.taken$/;

export function isTaken(name: string): boolean {
  return TAKEN.test(name);
}

export function createVolumeOwner(root: string): VolumeOwner {
  const path = join(root, OWNER);
  const id = randomBytes(16).toString("hex");
  /** The files that this server is deleting now. */
  const removing = new Set<string>();
  let taking: Promise<void> | undefined;

  async function write(): Promise<void> {
    const partial = `${path}.${id}`;
    try {
      // A symlink, not a file: a file needs a block, and then nothing could be deleted on a full volume.
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
      // The volume was replaced, for example by a restored backup.
      await write();
      name = await readlink(path);
    }
    if (name === id) return;
    throw new StoreError("another snapshots server has taken over the volume; call that one", { isTransient: true });
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
      // A full volume may have no room for another name.
      await rm(file, { recursive: true, force: true });
      return;
    }
    let taken: Stats | undefined;
    try {
      taken = await ifThere(lstat(aside));
      if (taken !== undefined && (await isSeen?.(aside)) === false) {
        throw new StoreConflict(`${file} has changed since it was read`);
      }
      await owner.check();
      await rm(aside, { recursive: true, force: true });
    } catch (error) {
      await putBack(aside, file);
      throw error;
    }
    // Another server that acted as owner has moved the file back in the meantime.
    const present = await ifThere(lstat(file));
    if (present !== undefined && (taken === undefined || present.ino === taken.ino)) await remove(file, isSeen);
  }

  /** The files in the folder that were moved aside, with their original names. */
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

/** Moves a file back, unless another file has its name now. */
async function putBack(aside: string, path: string): Promise<void> {
  try {
    await link(aside, path);
    await rm(aside, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    // The volume has no hard links, or the other server has deleted the file.
    if ((await ifThere(lstat(path))) === undefined) await ifThere(rename(aside, path));
  }
}
