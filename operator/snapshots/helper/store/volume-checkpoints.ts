import { randomBytes } from "node:crypto";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  asOrdinary,
  isCheckpointOf,
  isOfSession,
  planCheckpoint,
  replacedBy,
} from "../../../../crds/snapshots/kept-versions.ts";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import type { MostKept } from "../../../../crds/snapshots/snapshot-store.ts";
import { digitsOf, placesOf, recordPath, removeIfEmpty, syncFolders, writeRecord } from "./volume-files.ts";
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
  /** Makes a version an ordinary one if it is a checkpoint of the session. @param options.id of this change */
  detach(found: FoundFile, options: { session: string | undefined; id: string }): Promise<void>;
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

  async function detach(
    { path, metadata, commit, kept, order }: FoundFile,
    { session, id }: { session: string | undefined; id: string },
  ): Promise<void> {
    if (!isOfSession(session, metadata)) return;
    const record = { metadata: asOrdinary(metadata), commit, kept, order };
    await writeRecord(recordPath(path, metadata.sha256), record, id);
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
    const plan = planCheckpoint(metadata, metadataOf(archivesIn(stored).flatMap(foundIn)));
    if (plan.kind === "present") return plan.same;
    if (plan.kind === "shared") return await shareFound(id, stored.versions.flatMap(foundIn), plan.same);
    const upload = take();
    const replaced = replacedIn(stored, session);
    const dropped = new Set<string>(replaced.map(({ path }) => path));
    const staying = archivesIn(stored).filter(({ path }) => !dropped.has(path));
    const present = usageOf(stored);
    const reserved = await usage.reserveCheckpoint(key, { sizeBytes, metadata, staying, most, present });
    try {
      await write(key, { id, metadata, stored, upload });
      await remove(replaced.filter((one) => one.metadata.sha256 !== sha256));
      return metadata;
    } catch (error) {
      const to = await usageWith(key, stored).catch(() => reserved);
      usage.note(key, { from: reserved, to });
      throw error;
    }
  }

  /** Two sessions have saved the same archive: it becomes an ordinary version, which neither of them deletes. */
  async function shareFound(id: string, versions: readonly FoundFile[], same: SnapshotMetadata) {
    const found = versions.find(({ metadata }) => metadata === same);
    const metadata = asOrdinary(same);
    if (found === undefined) return metadata;
    const { path, kept, order } = found;
    await writeRecord(recordPath(path, same.sha256), { metadata, commit: id, kept, order }, id);
    return metadata;
  }

  return {
    add,
    detach,
    async drop(key, superseded) {
      const { stored, session } = superseded;
      const from = usageOf(stored);
      const found = checkpointsOf(superseded).filter(({ metadata }) => metadata.sha256 !== superseded.except);
      const dropped = found.filter(({ metadata }) => isCheckpointOf(session, metadata));
      if (superseded.except === undefined) {
        const id = randomBytes(16).toString("hex");
        for (const one of found) if (!dropped.includes(one)) await detach(one, { session, id });
      }
      if (dropped.length === 0) return false;
      await remove(dropped);
      await syncFolders(placesOf(root, key).versions);
      usage.note(key, { from, to: await usageWith(key, stored) });
      return true;
    },
  };
}

/** The files of the checkpoints that another one replaces. */
function replacedIn(stored: StoredKey, session: string | undefined): FoundFile[] {
  const found = stored.versions.flatMap(foundIn);
  const going = new Set(replacedBy(session, metadataOf(found)));
  return found.filter(({ metadata }) => going.has(metadata));
}

function checkpointsOf({ session, stored }: Superseded): FoundFile[] {
  return stored.versions.flatMap(foundIn).filter(({ metadata }) => isOfSession(session, metadata));
}

function metadataOf(found: readonly FoundFile[]): SnapshotMetadata[] {
  return found.map(({ metadata }) => metadata);
}
