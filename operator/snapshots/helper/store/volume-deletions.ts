import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { type SnapshotKey, snapshotPath } from "../../../../crds/snapshots/snapshot-key.ts";
import { StoreConflict, StoreError } from "../../../../crds/snapshots/snapshot-store.ts";
import type { ChangeIn } from "./volume-changes.ts";
import type { VolumeCheckpoints } from "./volume-checkpoints.ts";
import { ifThere, isFile, isRecordOf, placesOf, removeIfEmpty, type StoredFile, syncFolders } from "./volume-files.ts";
import type { VolumeOwner } from "./volume-owner.ts";
import { archivesIn, NOTHING_STORED, type StoredKey, type VolumeState } from "./volume-state.ts";
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
  uploads: Pick<VolumeUploads, "drop">;
  owner: VolumeOwner;
  usage: Pick<VolumeUsage, "note">;
  checkpoints: Pick<VolumeCheckpoints, "drop">;
  changeIn: ChangeIn;
  now: () => number;
}): VolumeDeletions {
  const { state, uploads, owner, usage, checkpoints, changeIn, now } = options;
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

  return {
    dropCheckpoint: (key, { session }, signal) =>
      changeIn(key, { signal, locked: () => dropLocked(key, session), missing: () => false }),

    delete: (key, options, signal) =>
      changeIn(key, {
        signal,
        locked: () => deleteLocked(key, options),
        missing() {
          if (options.replaces !== undefined && options.replaces !== state.revisionOf(key, NOTHING_STORED)) {
            throw new StoreConflict(`${snapshotPath(key)} does not exist any more`);
          }
          // A save that was requested before may still arrive.
          if (options.unusedForMs === undefined) state.noteDeletion(key);
          return false;
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
