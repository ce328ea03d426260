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
   * Whether this call has written it; else the head names it already, and goes on to do so whatever becomes of this.
   */
  readonly isOwn: boolean;
  /** Asked last of all before the head names it. */
  readonly describe: () => S3Version;
}

/**
 * Puts an archive that is written in the place of the newest. Where that is known to have failed, it is erased if this
 * call has written it.
 *
 * @throws StoreConflict when another state is there
 * @throws QuotaError when more would be kept than may be
 */
export type S3Commit = (
  key: SnapshotKey,
  written: Written,
  call: Omit<CommitCall, "timeoutMs">,
) => Promise<CommittedSnapshot>;

export interface S3Commits {
  readonly commit: S3Commit;
  /** @throws QuotaError where an archive of that size would not be kept */
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
      // It will not be named where the head is another by now: else an earlier try of the write may still be made. It
      // can have been, and the head that came next keeps it as a version.
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
      // What no head names any more may be erased at any time.
      if (!isOwn && !blobsOf(head).has(blob)) throw new StoreConflict(`${layout.head(key)} does not name ${blob}`);
      const others = await usage.others(key, { most, ownBytes: storedBytes(before), signal });
      const described = describe();
      const version = { ...described, ...descentOf(described, before[0]) };
      const { sizeBytes, sha256 } = version;
      const older = olderBeside(before, { next: sha256, keep, most });
      const staying = withinQuota(key, { sizeBytes, sha256, ...older, others, most });
      // What a version has too is one object: this one, which is known to be there.
      const versions = [version, ...staying.map((one) => (one.sha256 === sha256 ? { ...one, blob } : one))];
      mayBeNamed = true;
      const revision = await heads.swap(key, { next: { commit: newCommit(), versions }, replaces, signal });
      usage.note(key, { from: before, to: versions });
      const named = blobsOf({ versions });
      const dropped = [...blobsOf({ versions: before })].filter((each) => !named.has(each));
      // What is not erased now is erased as a leftover.
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

/** The older versions beside a new archive, before quotas, and what all of the key takes now. */
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
  // What is left behind is erased after a day.
}
