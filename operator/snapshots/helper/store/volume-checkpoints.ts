import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  detached,
  isCheckpointOf,
  isOfSession,
  planCheckpoint,
  surplusCheckpoints,
} from "../../../../crds/snapshots/kept-versions.ts";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import type { MostKept } from "../../../../crds/snapshots/snapshot-store.ts";
import {
  digitsOf,
  placesOf,
  recordPath,
  removeIfEmpty,
  rewriteRecord,
  syncFolders,
  writeRecord,
} from "./volume-files.ts";
import type { VolumeOwner } from "./volume-owner.ts";
import { archivesIn, type FoundFile, foundIn, orderAfter, type StoredKey, type VolumeState } from "./volume-state.ts";
import type { ReceivedFile, VolumeUploads } from "./volume-uploads.ts";
import { type UsageCount, usageOf, type VolumeUsage } from "./volume-usage.ts";

interface Addition {
  /** Of the upload and its commit. */
  readonly id: string;
  readonly most: MostKept;
  readonly metadata: SnapshotMetadata;
  /** The archives of the key. */
  readonly stored: StoredKey;
  /** Takes the upload. Not called if the same archive is stored already. */
  readonly take: () => ReceivedFile;
}

/** Checkpoints are older versions that name their session. Call these under the lock of the tenant's folder. */
export interface VolumeCheckpoints {
  /**
   * Makes a received archive the latest older version, then deletes the earlier checkpoint of its session.
   *
   * @returns the metadata of the archive; if the same archive was stored before, the metadata that it has
   * @throws QuotaError if it does not fit beside everything that stays
   */
  add(key: SnapshotKey, addition: Addition): Promise<SnapshotMetadata>;
  /**
   * Deletes the checkpoints of a session; those with a name become ordinary versions.
   *
   * @returns whether one was deleted
   */
  drop(key: SnapshotKey, given: Superseded): Promise<boolean>;
  /** Makes an archive one that the session does not go on from. */
  detach(found: FoundFile, session: string | undefined): Promise<void>;
}

interface Superseded {
  readonly session: string | undefined;
  readonly stored: StoredKey;
  /** The SHA-256 of the checkpoint of the session that stays. @default none */
  readonly except?: string | undefined;
}

export function createVolumeCheckpoints(options: {
  state: Pick<VolumeState, "root" | "versions">;
  owner: Pick<VolumeOwner, "check" | "remove">;
  uploads: Pick<VolumeUploads, "forget">;
  usage: Pick<VolumeUsage, "reserveCheckpoint" | "note">;
}): VolumeCheckpoints {
  const { state, owner, uploads, usage } = options;
  const { root } = state;

  async function write(
    key: SnapshotKey,
    { id, metadata, stored, upload }: Omit<Addition, "take" | "most"> & { upload: ReceivedFile },
  ): Promise<void> {
    const { folder, versions } = placesOf(root, key);
    const { sha256 } = metadata;
    const path = join(versions, `${digitsOf(sha256)}.tar.gz`);
    try {
      await mkdir(versions, { recursive: true, mode: 0o700 });
      const order = orderAfter(stored.versions, metadata);
      await writeRecord(recordPath(path, sha256), { metadata, commit: id, kept: "replaced", order }, id);
      await rename(upload.path, path);
    } catch (error) {
      for (const each of [versions, join(folder, ".versions")]) await removeIfEmpty(each);
      throw error;
    }
    // The same archive once more: a rename leaves both names of one file.
    await rm(upload.path, { force: true });
    await syncFolders(versions, join(folder, ".versions"), folder, root);
    uploads.forget(key, id);
  }

  async function detach({ metadata, ...file }: FoundFile, session: string | undefined): Promise<void> {
    const left = detached(session, metadata);
    if (left !== metadata) await rewriteRecord(file, left, owner);
  }

  async function remove(found: readonly FoundFile[]): Promise<void> {
    // If this server was suspended until now, another one may have written versions unknown here.
    if (found.length > 0) await owner.check();
    for (const { path, metadata } of found) {
      await owner.remove(path);
      await owner.remove(recordPath(path, metadata.sha256));
    }
  }

  /** The usage with the same newest archive, which checkpoints do not change. */
  async function usageWith(key: SnapshotKey, { newest }: StoredKey): Promise<UsageCount> {
    return usageOf({ newest, versions: await state.versions(key) });
  }

  async function add(key: SnapshotKey, addition: Addition): Promise<SnapshotMetadata> {
    const { id, most, metadata, stored, take } = addition;
    const { sizeBytes, sha256, session } = metadata;
    const found = archivesIn(stored).flatMap(foundIn);
    const plan = planCheckpoint(metadata, metadataOf(found));
    if (plan.kind === "present") {
      const at = found.find((one) => one.metadata === plan.same);
      if (at !== undefined && plan.marked !== plan.same) {
        await rewriteRecord({ ...at, commit: id }, plan.marked, owner);
      }
      await drop(key, { session, stored, except: sha256 });
      return plan.marked;
    }
    const upload = take();
    const surplus = surplusIn(stored, session);
    const own = checkpointsOf({ session, stored }).filter((one) => isCheckpointOf(session, one.metadata));
    const going = [...own, ...surplus];
    const dropped = new Set<string>(going.map(({ path }) => path));
    const staying = archivesIn(stored).filter(({ path }) => !dropped.has(path));
    const present = usageOf(stored);
    const reserved = await usage.reserveCheckpoint(key, { sizeBytes, metadata, staying, most, present });
    try {
      await write(key, { id, metadata, stored, upload });
      for (const one of checkpointsOf({ session, stored })) {
        if (!dropped.has(one.path) && one.metadata.sha256 !== sha256) await detach(one, session);
      }
      await remove(going.filter((one) => one.metadata.sha256 !== sha256));
      return metadata;
    } catch (error) {
      const to = await usageWith(key, stored).catch(() => reserved);
      usage.note(key, { from: reserved, to });
      throw error;
    }
  }

  async function drop(key: SnapshotKey, { session, stored, except }: Superseded): Promise<boolean> {
    const from = usageOf(stored);
    const found = checkpointsOf({ session, stored }).filter(({ metadata }) => metadata.sha256 !== except);
    const dropped = found.filter(({ metadata }) => isCheckpointOf(session, metadata));
    for (const one of found) if (!dropped.includes(one)) await detach(one, session);
    if (dropped.length === 0) return false;
    await remove(dropped);
    await syncFolders(placesOf(root, key).versions);
    usage.note(key, { from, to: await usageWith(key, stored) });
    return true;
  }

  return { add, detach, drop };
}

function surplusIn(stored: StoredKey, session: string | undefined): FoundFile[] {
  const found = stored.versions.flatMap(foundIn);
  const going = new Set(surplusCheckpoints(session, metadataOf(found)));
  return found.filter(({ metadata }) => going.has(metadata));
}

/** What the session goes on from: one archive, or more after an interrupted call. */
function checkpointsOf({ session, stored }: Pick<Superseded, "session" | "stored">): FoundFile[] {
  return archivesIn(stored)
    .flatMap(foundIn)
    .filter(({ metadata }) => isOfSession(session, metadata));
}

function metadataOf(found: readonly FoundFile[]): SnapshotMetadata[] {
  return found.map(({ metadata }) => metadata);
}
