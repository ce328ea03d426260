import { link, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import {
  afterSession,
  asOlder,
  checkCheckpoint,
  detached,
  keptVersions,
} from "../../../../crds/snapshots/kept-versions.ts";
import { descentOf } from "../../../../crds/snapshots/lineage.ts";
import { checkSnapshotKey, type SnapshotKey, snapshotPath } from "../../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import {
  type CommittedSnapshot,
  type KeptAs,
  type MostKept,
  type SnapshotVersion,
  StoreConflict,
} from "../../../../crds/snapshots/snapshot-store.ts";
import { withNames } from "../../../../crds/snapshots/version-names.ts";
import type { Turns } from "./turns.ts";
import type { VolumeCheckpoints } from "./volume-checkpoints.ts";
import {
  cannotStore,
  digitsOf,
  ifThere,
  isRecordOf,
  linkOrCopy,
  placesOf,
  recordPath,
  type StoredFile,
  sha256Of,
  syncFolders,
  writeRecord,
} from "./volume-files.ts";
import { withVolumeLock } from "./volume-lock.ts";
import type { VolumeOwner } from "./volume-owner.ts";
import {
  archivesIn,
  asVersion,
  checkOwner,
  foundIn,
  orderAfter,
  type StoredKey,
  type VolumeState,
} from "./volume-state.ts";
import type { ReceivedFile, VolumeUploads } from "./volume-uploads.ts";
import { type UsageCount, usageOf, type VolumeUsage } from "./volume-usage.ts";

const OLD_RECORD_MS = 10 * 60_000;

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
  readonly session?: string | undefined;
}

/** The calls that add archives. */
export interface VolumeCommits {
  /**
   * Makes a received archive the newest, or a checkpoint an older version.
   *
   * @throws StoreConflict if the upload is gone, or the state has changed
   */
  commit(key: SnapshotKey, options: CommitOptions, signal: AbortSignal): Promise<CommittedSnapshot>;
  /** @throws QuotaError if an archive of that size would exceed a quota */
  checkRoom(key: SnapshotKey, options: RoomOptions): Promise<void>;
}

export function createVolumeCommits(options: {
  state: VolumeState;
  uploads: VolumeUploads;
  owner: VolumeOwner;
  /** The uid of the helper pod. */
  podUid: string | undefined;
  usage: VolumeUsage;
  checkpoints: VolumeCheckpoints;
  turns: Turns;
  now: () => number;
}): VolumeCommits {
  const { state, uploads, owner, podUid, usage, checkpoints, turns, now } = options;
  const { root } = state;

  async function commitLocked(key: SnapshotKey, options: CommitOptions): Promise<CommittedSnapshot> {
    const { id, replaces, most, metadata } = options;
    await owner.check();
    const stored = await state.read(key);
    const isCheckpoint = metadata.kind === "checkpoint";
    const done = (isCheckpoint ? archivesIn(stored) : [stored.newest]).find((one) => one?.commit === id)?.metadata;
    if (done !== undefined) {
      // The answer to the same call was lost, perhaps because the call ended in the middle.
      const { session } = metadata;
      await checkpoints.drop(key, { session, stored, except: isCheckpoint ? done.sha256 : undefined });
      return { revision: await revisionWith(key, stored.newest), metadata: done };
    }
    const before = state.revisionOf(key, stored);
    if (before !== replaces) {
      throw new StoreConflict(`${snapshotPath(key)} has changed since this save began (${before}, not ${replaces})`);
    }
    checkOwner(key, metadata);
    if (!isCheckpoint) return await put(key, { ...options, upload: takeUpload(key, options), stored });
    const take = () => takeUpload(key, options);
    const added = await checkpoints.add(key, { id, most, metadata, stored, take });
    await uploads.discard(key, id);
    const { newest } = stored;
    // The newest archive may be the one that has the same files, which is then recorded with this commit.
    const isNewest = added !== newest?.metadata && added.sha256 === newest?.metadata?.sha256;
    const present = isNewest ? { ...newest, metadata: added, commit: id } : newest;
    return { revision: await revisionWith(key, present), metadata: added };
  }

  /** The revision with this newest archive. It is not read again, since that may hash the whole archive. */
  async function revisionWith(
    key: SnapshotKey,
    newest: Parameters<VolumeState["revisionOf"]>[1]["newest"],
  ): Promise<string> {
    return state.revisionOf(key, { newest, versions: await state.versions(key) });
  }

  function takeUpload(key: SnapshotKey, { id, metadata }: CommitOptions): ReceivedFile {
    const upload = uploads.take(key, id);
    if (upload.sha256 === metadata.sha256 && upload.sizeBytes === metadata.sizeBytes) return upload;
    throw cannotStore("the written archive differs from the sent one");
  }

  async function put(
    key: SnapshotKey,
    options: CommitOptions & { upload: ReceivedFile; stored: StoredKey },
  ): Promise<CommittedSnapshot> {
    const { keep, most, metadata, stored } = options;
    const { sizeBytes, sha256, session } = metadata;
    const { added, wanted, present } = olderBeside(stored, { next: sha256, keep, most, session });
    const { staying, reserved } = await usage.reserve(key, { sizeBytes, sha256, older: wanted, most, present });
    try {
      return await replace(key, { ...options, added, staying });
    } catch (error) {
      const to = await state.read(key).then(usageOf, () => reserved);
      usage.note(key, { from: reserved, to });
      throw error;
    }
  }

  /** Replaces the newest archive in one step, by a rename. */
  async function replace(
    key: SnapshotKey,
    options: CommitOptions & {
      upload: ReceivedFile;
      stored: StoredKey;
      added: SnapshotVersion | undefined;
      staying: readonly SnapshotVersion[];
    },
  ): Promise<CommittedSnapshot> {
    const { id, keep, upload, stored, added, staying } = options;
    const before = stored.newest;
    const described = { ...options.metadata, ...descentOf(options.metadata, before?.metadata) };
    const metadata = withNames(
      described,
      archivesIn(stored)
        .flatMap(foundIn)
        .map((one) => one.metadata),
    );
    const { archive, folder } = placesOf(root, key);
    const { sha256 } = metadata;
    const kept = added?.kept ?? keep;
    const hasRoom = added === undefined || staying.includes(added);
    if (before !== undefined && kept !== undefined && hasRoom) {
      await keepVersion(key, { ...before, metadata: added }, { id, kept });
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
    await prune(key, { staying, session: metadata.session });
    return { revision: await revisionWith(key, { metadata, commit: id, identity: "" }), metadata };
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
      const record = { metadata, commit, kept, order: orderAfter(await state.versions(key), metadata) };
      await writeRecord(recordPath(older, sha256), record, id);
    }
    if (!(await linkOrCopy({ ...before, sha256 }, { path: older, id, check: owner.check }))) {
      throw new StoreConflict(`${snapshotPath(key)} has changed since it was read`);
    }
    await syncFolders(versions, join(folder, ".versions"), folder);
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

  async function prune(
    key: SnapshotKey,
    { staying, session }: { staying: readonly SnapshotVersion[]; session: string | undefined },
  ): Promise<void> {
    const names = new Set(staying.map(({ sha256 }) => `${digitsOf(sha256)}.tar.gz`));
    for (const { metadata, ...file } of await state.versions(key)) {
      const { path } = file;
      // The content of a version without metadata is unknown, so keep it.
      if (metadata === undefined) continue;
      if (names.has(basename(path))) {
        await checkpoints.detach({ ...file, metadata }, session);
        continue;
      }
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

  return {
    async commit(key, options, signal) {
      checkSnapshotKey(key);
      checkCheckpoint(options.metadata);
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

    async checkRoom(key, { sizeBytes, keep, most, session }) {
      checkSnapshotKey(key);
      await state.checkRoot();
      await usage.counted();
      await turns.take(key.tenantId, async () => {
        const stored = await state.read(key);
        const { wanted, present } = olderBeside(stored, { next: undefined, keep, most, session });
        await usage.staying(key, { sizeBytes, older: wanted, most, present });
      });
    },
  };
}

/** The older versions beside a new archive, before quotas; `added` is the archive that it would replace. */
function olderBeside(
  stored: StoredKey,
  {
    next,
    keep,
    most,
    session,
  }: Pick<CommitOptions, "keep" | "most"> & { next: string | undefined; session: string | undefined },
): { added: SnapshotVersion | undefined; wanted: SnapshotVersion[]; present: UsageCount } {
  const older = afterSession(session, stored.versions.flatMap(asVersion));
  const newest = stored.newest?.metadata;
  const added = asOlder(newest && detached(session, newest), { keep, older, next });
  return { added, wanted: keptVersions(older, { added, next, most }), present: usageOf(stored) };
}

function ignore(): void {
  // The earlier failure is thrown.
}
