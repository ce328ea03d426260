import { link, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { keptAs, keptVersions } from "../../../../crds/snapshots/kept-versions.ts";
import { descentOf } from "../../../../crds/snapshots/lineage.ts";
import { checkSnapshotKey, type SnapshotKey, snapshotPath } from "../../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import {
  type CommittedSnapshot,
  type KeptAs,
  type MostKept,
  type SnapshotVersion,
  StoreConflict,
  StoreError,
} from "../../../../crds/snapshots/snapshot-store.ts";
import type { Turns } from "./turns.ts";
import {
  cannotStore,
  digitsOf,
  ifThere,
  isFile,
  isRecordOf,
  linkOrCopy,
  placesOf,
  recordPath,
  removeIfEmpty,
  type StoredFile,
  sha256Of,
  syncFolders,
  writeRecord,
} from "./volume-files.ts";
import { withVolumeLock } from "./volume-lock.ts";
import type { VolumeOwner } from "./volume-owner.ts";
import { asVersion, checkOwner, type VolumeState } from "./volume-state.ts";
import type { VolumeTenants } from "./volume-tenants.ts";
import type { ReceivedFile, VolumeUploads } from "./volume-uploads.ts";
import { NO_USAGE, type UsageCount, usageOf, type VolumeUsage } from "./volume-usage.ts";

const OLD_RECORD_MS = 10 * 60_000;
const MOST_REMOVALS = 3;

export interface CommitOptions {
  /** Of the upload, 32 hexadecimal digits. A commit can be repeated with the same id. */
  readonly id: string;
  readonly replaces: string;
  readonly keep?: KeptAs | undefined;
  readonly most: MostKept;
  readonly metadata: SnapshotMetadata;
}

interface RoomOptions extends Pick<CommitOptions, "keep" | "most"> {
  readonly sizeBytes: number;
}

/** The calls that add and delete archives. */
export interface VolumeCommits {
  /** Makes a received archive the newest. @throws StoreConflict if the upload is gone, or the state has changed */
  commit(key: SnapshotKey, options: CommitOptions, signal: AbortSignal): Promise<CommittedSnapshot>;
  /** @throws QuotaError if an archive of that size would exceed a quota */
  checkRoom(key: SnapshotKey, options: RoomOptions): Promise<void>;
  delete(
    key: SnapshotKey,
    options: { replaces?: string | undefined; unusedForMs?: number | undefined },
    signal: AbortSignal,
  ): Promise<boolean>;
}

export function createVolumeCommits(options: {
  state: VolumeState;
  tenants: Pick<VolumeTenants, "has">;
  uploads: VolumeUploads;
  owner: VolumeOwner;
  /** The uid of the helper pod. */
  podUid: string | undefined;
  usage: VolumeUsage;
  turns: Turns;
  now: () => number;
}): VolumeCommits {
  const { state, tenants, uploads, owner, podUid, usage, turns, now } = options;
  const { root } = state;

  async function commitLocked(key: SnapshotKey, options: CommitOptions): Promise<CommittedSnapshot> {
    const { id, replaces, metadata } = options;
    await owner.check();
    const before = await state.newest(key);
    if (before?.commit === id && before.metadata !== undefined) {
      // The answer to the same call was lost.
      return { revision: state.revisionOf(key, before), metadata: before.metadata };
    }
    const upload = uploads.take(key, id);
    const present = state.revisionOf(key, before);
    if (present !== replaces) {
      throw new StoreConflict(`${snapshotPath(key)} has changed since this save began (${present}, not ${replaces})`);
    }
    if (upload.sha256 !== metadata.sha256 || upload.sizeBytes !== metadata.sizeBytes) {
      throw cannotStore("the written archive differs from the sent one");
    }
    checkOwner(key, metadata);
    return await put(key, { ...options, upload, before });
  }

  async function put(
    key: SnapshotKey,
    options: CommitOptions & { upload: ReceivedFile; before: StoredFile | undefined },
  ): Promise<CommittedSnapshot> {
    const { keep, most, metadata, before } = options;
    const { sizeBytes, sha256 } = metadata;
    const { added, wanted, present } = await olderBeside(key, { before, next: sha256, keep, most });
    const { staying, reserved } = await usage.reserve(key, { sizeBytes, sha256, older: wanted, most, present });
    try {
      return await replace(key, { ...options, added, staying });
    } catch (error) {
      const to = await presentOf(key).catch(() => reserved);
      usage.note(key, { from: reserved, to });
      throw error;
    }
  }

  /** Replaces the newest archive in one step, by a rename. */
  async function replace(
    key: SnapshotKey,
    options: CommitOptions & {
      upload: ReceivedFile;
      before: StoredFile | undefined;
      added: SnapshotVersion | undefined;
      staying: readonly SnapshotVersion[];
    },
  ): Promise<CommittedSnapshot> {
    const { id, keep, upload, before, added, staying } = options;
    const metadata = { ...options.metadata, ...descentOf(options.metadata, before?.metadata) };
    const { archive, folder } = placesOf(root, key);
    const { sha256 } = metadata;
    const hasRoom = added === undefined || staying.includes(added);
    if (before !== undefined && keep !== undefined && hasRoom) {
      await keepVersion(key, before, { id, kept: added?.kept ?? keep });
    }
    if (staying.some((version) => version.sha256 === sha256)) await shareFile(key, upload, id);
    const record = recordPath(archive, sha256);
    await writeRecord(record, { metadata, commit: id }, id);
    await rename(upload.path, archive);
    // A rollback to the newest archive: a rename leaves both names of one file.
    await rm(upload.path, { force: true });
    await syncFolders(folder, root);
    uploads.forget(key, id);
    // If this server was suspended until now, another one may have written versions and records unknown here.
    await owner.check();
    await dropOldRecords(archive, record);
    await prune(key, staying);
    return { revision: `${digitsOf(sha256)}.${id}`, metadata };
  }

  /** The older versions beside a new archive, before quotas; `added` is the archive that it would replace. */
  async function olderBeside(
    key: SnapshotKey,
    {
      before,
      next,
      keep,
      most,
    }: Pick<CommitOptions, "keep" | "most"> & { before: StoredFile | undefined; next: string | undefined },
  ): Promise<{ added: SnapshotVersion | undefined; wanted: SnapshotVersion[]; present: UsageCount }> {
    const stored = await state.versions(key);
    const older = stored.flatMap(asVersion);
    const added = keep === undefined ? undefined : asAdded(keep, before?.metadata, older);
    const present = usageOf(before === undefined ? stored : [before, ...stored]);
    return { added, wanted: keptVersions(older, { added, next, most }), present };
  }

  async function presentOf(key: SnapshotKey): Promise<UsageCount> {
    const present = [await state.newest(key), ...(await state.versions(key))];
    return usageOf(present.filter((one) => one !== undefined));
  }

  async function keepVersion(
    key: SnapshotKey,
    before: StoredFile,
    { id, kept }: { id: string; kept: KeptAs },
  ): Promise<void> {
    const { folder, versions } = placesOf(root, key);
    const { metadata, commit } = before;
    // An archive that does not match its metadata is never restored, but kept for a person to look at.
    const sha256 = metadata?.sha256 ?? (await sha256Of(before.path));
    await mkdir(versions, { recursive: true, mode: 0o700 });
    const older = join(versions, `${digitsOf(sha256)}.tar.gz`);
    // If this server was suspended until now, another one may have kept this version and saved a newer archive.
    await owner.check();
    if (metadata !== undefined) {
      const record = { metadata, commit, kept, order: await orderAfter(key, metadata) };
      await writeRecord(recordPath(older, sha256), record, id);
    }
    if (!(await linkOrCopy({ ...before, sha256 }, { path: older, id, check: owner.check }))) {
      throw new StoreConflict(`${snapshotPath(key)} has changed since it was read`);
    }
    await syncFolders(versions, join(folder, ".versions"), folder);
  }

  /** The order follows the time of the save, and is after all versions kept before: the clock may have been ahead. */
  async function orderAfter(key: SnapshotKey, { createdAt }: SnapshotMetadata): Promise<number> {
    const [latest] = await state.versions(key);
    return Math.max(Date.parse(createdAt) || 0, (latest?.order ?? 0) + 1);
  }

  /** Makes an older version with the same content the same file, since the two are counted once. */
  async function shareFile(key: SnapshotKey, { path, sha256 }: ReceivedFile, id: string): Promise<void> {
    const older = join(placesOf(root, key).versions, `${digitsOf(sha256)}.tar.gz`);
    const partial = `${older}.${id}.partial`;
    try {
      await link(path, partial);
    } catch {
      // A volume without hard links stores both.
      return;
    }
    try {
      await owner.check();
      await rename(partial, older);
    } finally {
      // If both names are of one file already, a rename leaves both.
      await rm(partial, { force: true });
    }
  }

  async function prune(key: SnapshotKey, staying: readonly SnapshotVersion[]): Promise<void> {
    const names = new Set(staying.map(({ sha256 }) => `${digitsOf(sha256)}.tar.gz`));
    for (const { path, metadata } of await state.versions(key)) {
      // The content of a version without metadata is unknown, so keep it.
      if (metadata === undefined || names.has(basename(path))) continue;
      await owner.remove(path);
      await owner.remove(recordPath(path, metadata.sha256));
    }
  }

  async function dropOldRecords(archive: string, except: string | undefined): Promise<void> {
    const folder = dirname(archive);
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      if (!isRecordOf(basename(archive), name) || path === except) continue;
      const found = await ifThere(stat(path));
      if (found !== undefined && now() - found.mtimeMs > OLD_RECORD_MS) await owner.remove(path);
    }
  }

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
    let stored = await state.newest(key);
    const present = state.revisionOf(key, stored);
    if (replaces !== undefined && replaces !== present) {
      throw new StoreConflict(`${snapshotPath(key)} has changed since it was read (${present}, not ${replaces})`);
    }
    if (unusedForMs !== undefined && (stored === undefined || now() - stored.usedMs < unusedForMs)) return false;
    await uploads.drop(key, "the archive was deleted");
    const from = await presentOf(key);
    // Another server that still acts as owner may have moved a file aside, and now moves it back.
    for (let tries = 1; await removeAll(key, stored); tries += 1) {
      if (tries === MOST_REMOVALS) {
        throw new StoreError(`another snapshots server restores ${snapshotPath(key)}`, { isTransient: true });
      }
      stored = await state.newest(key);
    }
    await syncFolders(folder);
    state.noteDeletion(key);
    usage.note(key, { from, to: NO_USAGE });
    return from.archives > 0;
  }

  return {
    async commit(key, options, signal) {
      checkSnapshotKey(key);
      const { folder } = placesOf(root, key);
      const { tenantBytes, workloadBytes } = options.most;
      if (tenantBytes !== undefined || workloadBytes !== undefined) await usage.counted();
      return await turns.take(key.tenantId, async () => {
        try {
          return await withVolumeLock(folder, { signal, podUid }, () => commitLocked(key, options));
        } catch (error) {
          // A client that gets this error saves again; one whose connection has ended may repeat the commit.
          if (!signal.aborted) await uploads.discard(key, options.id).catch(ignore);
          if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
          throw new StoreConflict("Cannot store the archive: its folder was deleted", { cause: error });
        }
      });
    },

    async checkRoom(key, { sizeBytes, keep, most }) {
      checkSnapshotKey(key);
      await state.checkRoot();
      await usage.counted();
      await turns.take(key.tenantId, async () => {
        const before = await state.newest(key);
        const { wanted, present } = await olderBeside(key, { before, next: undefined, keep, most });
        await usage.staying(key, { sizeBytes, older: wanted, most, present });
      });
    },

    async delete(key, options, signal) {
      checkSnapshotKey(key);
      await state.checkRoot();
      const { folder } = placesOf(root, key);
      return await turns.take(key.tenantId, async () => {
        if (!(await tenants.has(key.tenantId))) {
          // A server that is not the owner any more does not see the other one's saves.
          if (await state.isMarked()) await owner.check();
          if (options.replaces !== undefined && options.replaces !== state.revisionOf(key, undefined)) {
            throw new StoreConflict(`${snapshotPath(key)} does not exist any more`);
          }
          // A save that was requested before may still arrive.
          if (options.unusedForMs === undefined) state.noteDeletion(key);
          return false;
        }
        const isDeleted = await withVolumeLock(folder, { signal, podUid }, () => deleteLocked(key, options));
        await removeIfEmpty(folder);
        return isDeleted;
      });
    },
  };
}

function asAdded(
  keep: KeptAs,
  metadata: SnapshotMetadata | undefined,
  older: readonly SnapshotVersion[],
): SnapshotVersion | undefined {
  return metadata && { ...metadata, kept: keptAs(keep, older, metadata.sha256) };
}

function ignore(): void {
  // The earlier failure is thrown.
}
