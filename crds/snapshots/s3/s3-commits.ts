import { keptAs, keptVersions } from "../kept-versions.ts";
import { descentOf } from "../lineage.ts";
import { storedBytes, withinQuota } from "../quota.ts";
import type { SnapshotKey } from "../snapshot-key.ts";
import { type CommitCall, type CommittedSnapshot, type RoomCall, StoreConflict } from "../snapshot-store.ts";
import type { S3Bucket } from "./s3-bucket.ts";
import { asOlder, blobsOf, metadataOf, newCommit, type S3Heads, type S3Version } from "./s3-heads.ts";
import type { S3Layout } from "./s3-layout.ts";
import type { S3Usage } from "./s3-usage.ts";

const ERASE_LIMIT_MS = 5000;

interface Written {
  readonly blob: string;
  /**
   * Whether this call has written the archive. If not, the head already names it, and keeps naming it if the commit
   * fails.
   */
  readonly isOwn: boolean;
  /** Called at the end, before the head names the archive. */
  readonly describe: () => S3Version;
}

/**
 * Replaces the newest archive with one that is already written. If the commit has certainly failed, the archive is
 * erased if this call has written it.
 *
 * @throws StoreConflict if the state is another one
 * @throws QuotaError if more would be kept than the limits allow
 */
export type S3Commit = (
  key: SnapshotKey,
  written: Written,
  call: Omit<CommitCall, "timeoutMs">,
) => Promise<CommittedSnapshot>;

export interface S3Commits {
  readonly commit: S3Commit;
  /** @throws QuotaError if an archive of that size would not be kept */
  checkRoom(key: SnapshotKey, call: Omit<RoomCall, "timeoutMs">): Promise<void>;
}

export function createS3Commits(options: {
  bucket: S3Bucket;
  layout: S3Layout;
  heads: S3Heads;
  usage: S3Usage;
}): S3Commits {
  const { bucket, layout, heads, usage } = options;

  async function eraseUnnamed(
    key: SnapshotKey,
    blob: string,
    { mayBeNamed, replaces, error }: { mayBeNamed: boolean; replaces: string; error: unknown },
  ): Promise<void> {
    const signal = AbortSignal.timeout(ERASE_LIMIT_MS);
    if (mayBeNamed) {
      if (!(error instanceof StoreConflict)) return;
      const { head, revision } = await heads.read(key, signal);
      // If the head has not changed, an earlier try of the write may still succeed. If it has changed, no try can
      // succeed any more; but one may have succeeded before, and then the head names the archive as a version.
      if (revision === replaces || blobsOf(head).has(blob)) return;
    }
    await bucket.erase(layout.archive(key, blob), signal);
  }

  const commit: S3Commit = async (key, { blob, isOwn, describe }, { replaces, keep, most, signal }) => {
    let mayBeNamed = false;
    try {
      const { head, revision: present } = await heads.read(key, signal);
      if (present !== replaces) throw new StoreConflict(`${layout.head(key)} has changed since this save began`);
      const before = head?.versions ?? [];
      // An archive that the head does not name may be erased at any time.
      if (!isOwn && !blobsOf(head).has(blob)) throw new StoreConflict(`${layout.head(key)} does not name ${blob}`);
      const others = await usage.others(key, { most, ownBytes: storedBytes(before), signal });
      const described = describe();
      const version = { ...described, ...descentOf(described, before[0]) };
      const { sizeBytes, sha256 } = version;
      const older = olderBeside(before, { next: sha256, keep, most });
      const staying = withinQuota(key, { sizeBytes, sha256, ...older, others, most });
      // A version with the same content names this object, which certainly exists.
      const versions = [version, ...staying.map((one) => (one.sha256 === sha256 ? { ...one, blob } : one))];
      mayBeNamed = true;
      const revision = await heads.swap(key, { next: { commit: newCommit(), versions }, replaces, signal });
      usage.note(key, { from: before, to: versions });
      const named = blobsOf({ versions });
      const dropped = [...blobsOf({ versions: before })].filter((each) => !named.has(each));
      // If this fails, they are erased later as leftovers.
      await Promise.all(dropped.map((each) => bucket.erase(layout.archive(key, each), signal).catch(ignore)));
      return { revision, metadata: metadataOf(version) };
    } catch (error) {
      if (isOwn) await eraseUnnamed(key, blob, { mayBeNamed, replaces, error }).catch(ignore);
      throw error;
    }
  };

  return {
    commit,
    async checkRoom(key, { sizeBytes, keep, most, signal }) {
      const before = (await heads.read(key, signal)).head?.versions ?? [];
      const others = await usage.others(key, { most, ownBytes: storedBytes(before), signal });
      const older = olderBeside(before, { next: undefined, keep, most });
      withinQuota(key, { sizeBytes, ...older, others, most });
    },
  };
}

/** The older versions beside a new archive, before limits, and the bytes that the key takes now. */
function olderBeside(
  before: readonly S3Version[],
  { next, keep, most }: Pick<CommitCall, "keep" | "most"> & { next: string | undefined },
) {
  const [replaced, ...older] = [before[0], ...before.slice(1).map(asOlder)];
  const added =
    keep === undefined || replaced === undefined
      ? undefined
      : { ...replaced, kept: keptAs(keep, older, replaced.sha256) };
  return {
    older: keptVersions(older, { added, next, most }),
    bytesBefore: storedBytes(before),
  };
}

function ignore(): void {
  // The leftover is erased after a day.
}
