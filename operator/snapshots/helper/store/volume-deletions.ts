import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { checkSnapshotKey, type SnapshotKey, snapshotPath } from "../../../../crds/snapshots/snapshot-key.ts";
import { StoreConflict, StoreError } from "../../../../crds/snapshots/snapshot-store.ts";
import type { Turns } from "./turns.ts";
import type { VolumeCheckpoints } from "./volume-checkpoints.ts";
import { ifThere, isFile, isRecordOf, placesOf, removeIfEmpty, type StoredFile, syncFolders } from "./volume-files.ts";
import { withVolumeLock } from "./volume-lock.ts";
import type { VolumeOwner } from "./volume-owner.ts";
import { archivesIn, NOTHING_STORED, type StoredKey, type VolumeState } from "./volume-state.ts";
import type { VolumeTenants } from "./volume-tenants.ts";
import type { VolumeUploads } from "./volume-uploads.ts";
import { NO_USAGE, usageOf, type VolumeUsage } from "./volume-usage.ts";

const MOST_REMOVALS = 3;

/** The calls that delete archives. */
export interface VolumeDeletions {
  /** Deletes the checkpoint of a session. @returns whether there was one */
  dropCheckpoint(key: SnapshotKey, options: { session: string }, signal: AbortSignal): Promise<boolean>;
  delete(
    key: SnapshotKey,
    options: { replaces?: string | undefined; unusedForMs?: number | undefined },
    signal: AbortSignal,
  ): Promise<boolean>;
}

export function createVolumeDeletions(options: {
  state: VolumeState;
  tenants: Pick<VolumeTenants, "has">;
  uploads: Pick<VolumeUploads, "drop">;
  owner: VolumeOwner;
  /** The uid of the helper pod. */
  podUid: string | undefined;
  usage: Pick<VolumeUsage, "note">;
  checkpoints: Pick<VolumeCheckpoints, "drop">;
  turns: Turns;
  now: () => number;
}): VolumeDeletions {
  const { state, tenants, uploads, owner, podUid, usage, checkpoints, turns, now } = options;
  const { root } = state;

  /** @returns whether anything is left */
  async function removeAll(key: SnapshotKey, stored: StoredFile | undefined): Promise<boolean> {
    const { archive, folder, versions } = placesOf(root, key);
    // Delete the archive last: after an interrupted deletion, the client deletes again as long as the archive exists.
    for (const name of (await ifThere(readdir(versions))) ?? []) await owner.remove(join(versions, name));
    for (const each of [versions, join(folder, ".versions")]) await removeIfEmpty(each);
    if (stored !== undefined) {
      await owner.remove(archive, (aside) => isFile(aside, { ...stored, sha256: stored.metadata?.sha256 }));
    }
    for (const name of await readdir(folder)) {
      if (isRecordOf(basename(archive), name)) await owner.remove(join(folder, name));
    }
    await owner.dropTaken(folder, (name) => name === basename(archive) || isRecordOf(basename(archive), name));
    const left = await Promise.all([ifThere(stat(archive)), ifThere(readdir(versions))]);
    return left.some((found) => found !== undefined);
  }

  async function deleteLocked(
    key: SnapshotKey,
    { replaces, unusedForMs }: { replaces?: string | undefined; unusedForMs?: number | undefined },
  ): Promise<boolean> {
    const { folder } = placesOf(root, key);
    await owner.check();
    const found = await state.read(key);
    const present = state.revisionOf(key, found);
    if (replaces !== undefined && replaces !== present) {
      throw new StoreConflict(`${snapshotPath(key)} has changed since it was read (${present}, not ${replaces})`);
    }
    if (unusedForMs !== undefined && !(now() - (usedMsOf(found) ?? Number.NaN) >= unusedForMs)) return false;
    await uploads.drop(key, "the archive was deleted");
    const from = usageOf(await state.read(key));
    await removeSurely(key, found.newest);
    await syncFolders(folder);
    state.noteDeletion(key);
    usage.note(key, { from, to: NO_USAGE });
    return from.archives > 0;
  }

  async function removeSurely(key: SnapshotKey, newest: StoredFile | undefined): Promise<void> {
    let stored = newest;
    // Another server that still acts as owner may have moved a file aside, and now moves it back.
    for (let tries = 1; await removeAll(key, stored); tries += 1) {
      if (tries === MOST_REMOVALS) {
        throw new StoreError(`another snapshots server restores ${snapshotPath(key)}`, { isTransient: true });
      }
      stored = await state.newest(key);
    }
  }

  async function dropLocked(key: SnapshotKey, session: string): Promise<boolean> {
    await owner.check();
    const stored = await state.read(key);
    if (!(await checkpoints.drop(key, { session, stored }))) return false;
    state.noteDeletion(key);
    const { folder, versions } = placesOf(root, key);
    for (const each of [versions, join(folder, ".versions")]) await removeIfEmpty(each);
    if (stored.newest !== undefined || (await state.versions(key)).length > 0) return true;
    // An interrupted save may have left metadata without an archive.
    await removeSurely(key, undefined);
    await syncFolders(folder);
    return true;
  }

  /**
   * Deletes something in the tenant's turn, and then the folder if it is empty.
   *
   * @param work.locked is done under the lock of the folder
   * @param work.missing is done if the tenant has no folder
   */
  async function deleteIn(
    key: SnapshotKey,
    { signal, locked, missing }: { signal: AbortSignal; locked: () => Promise<boolean>; missing: () => void },
  ): Promise<boolean> {
    checkSnapshotKey(key);
    await state.checkRoot();
    const { folder } = placesOf(root, key);
    return await turns.take(key.tenantId, async () => {
      if (!(await tenants.has(key.tenantId))) {
        // A server that is not the owner any more does not see the other one's saves.
        if (await state.isMarked()) await owner.check();
        missing();
        return false;
      }
      const isDeleted = await withVolumeLock(folder, { signal, podUid }, locked);
      await removeIfEmpty(folder);
      return isDeleted;
    });
  }

  return {
    dropCheckpoint: (key, { session }, signal) =>
      deleteIn(key, { signal, locked: () => dropLocked(key, session), missing: () => undefined }),

    delete: (key, options, signal) =>
      deleteIn(key, {
        signal,
        locked: () => deleteLocked(key, options),
        missing() {
          if (options.replaces !== undefined && options.replaces !== state.revisionOf(key, NOTHING_STORED)) {
            throw new StoreConflict(`${snapshotPath(key)} does not exist any more`);
          }
          // A save that was requested before may still arrive.
          if (options.unusedForMs === undefined) state.noteDeletion(key);
        },
      }),
  };
}

/** When a key was last in use: its newest archive and its checkpoints; without a newest archive, all its versions. */
function usedMsOf({ newest, versions }: StoredKey): number | undefined {
  const checkpoints = versions.filter(({ metadata }) => newest === undefined || metadata?.kind === "checkpoint");
  const used = archivesIn({ newest, versions: checkpoints }).map(({ usedMs }) => usedMs);
  return used.length === 0 ? undefined : Math.max(...used);
}
