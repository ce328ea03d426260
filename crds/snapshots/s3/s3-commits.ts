import {
  afterSession,
  asOlder,
  checkCheckpoint,
  detached,
  isOfSession,
  keptVersions,
  planCheckpoint,
  surplusCheckpoints,
} from "../kept-versions.ts";
import { descentOf } from "../lineage.ts";
import { checkCheckpointQuota, type OtherBytes, storedBytes, withinQuota } from "../quota.ts";
import type { SnapshotKey } from "../snapshot-key.ts";
import {
  type CommitCall,
  type CommittedSnapshot,
  type MostKept,
  type RoomCall,
  type StoreCall,
  StoreConflict,
} from "../snapshot-store.ts";
import { archiveNamed, type NameOutcome, nameOutcome, withName, withNames, withoutName } from "../version-names.ts";
import type { S3Bucket } from "./s3-bucket.ts";
import {
  archivesOf,
  blobsOf,
  metadataOf,
  newCommit,
  olderOf,
  type S3Head,
  type S3Heads,
  type S3Version,
} from "./s3-heads.ts";
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
 * Replaces the newest archive with one that is already written, or adds that one as a checkpoint. If the commit has
 * certainly failed, the archive is erased if this call has written it.
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
  /** Deletes the checkpoint of a session. @returns whether there was one */
  dropCheckpoint(key: SnapshotKey, call: Pick<StoreCall, "signal"> & { session: string }): Promise<boolean>;
  setName(key: SnapshotKey, named: { sha256: string; name: string }, signal: AbortSignal): Promise<NameOutcome>;
  /** @returns whether an archive had the name */
  dropName(key: SnapshotKey, name: string, signal: AbortSignal): Promise<boolean>;
}

type Named = Pick<S3Head, "versions" | "checkpoints">;

/** What a head names after a commit. */
interface Change {
  readonly named: Named;
  /** The committed archive. */
  readonly version: S3Version;
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

  /** Writes a head that names these archives, and erases the archives that it no longer names. */
  async function replaceHead(
    key: SnapshotKey,
    {
      head,
      named,
      replaces,
      signal,
    }: { head: S3Head | undefined; named: Named; replaces: string; signal: AbortSignal },
  ): Promise<string> {
    const revision = await heads.swap(key, { next: { commit: newCommit(), ...named }, replaces, signal });
    usage.note(key, { from: archivesOf(head), to: archivesOf(named) });
    const names = blobsOf(named);
    const dropped = [...blobsOf(head)].filter((each) => !names.has(each));
    // If this fails, they are erased later as leftovers.
    await Promise.all(dropped.map((each) => bucket.erase(layout.archive(key, each), signal).catch(ignore)));
    return revision;
  }

  const commit: S3Commit = async (key, { blob, isOwn, describe }, { replaces, keep, most, signal }) => {
    let mayBeNamed = false;
    try {
      const { head, revision: present } = await heads.read(key, signal);
      if (present !== replaces) throw new StoreConflict(`${layout.head(key)} has changed since this save began`);
      // An archive that the head does not name may be erased at any time.
      if (!isOwn && !blobsOf(head).has(blob)) throw new StoreConflict(`${layout.head(key)} does not name ${blob}`);
      const others = await usage.others(key, { most, ownBytes: storedBytes(archivesOf(head)), signal });
      const version = describe();
      checkCheckpoint(version);
      const change =
        version.kind === "checkpoint"
          ? withCheckpoint(key, version, { head, others, most })
          : withNewest(key, version, { head, others, keep, most });
      const { named } = change;
      let revision = present;
      if (named !== head) {
        mayBeNamed = true;
        revision = await replaceHead(key, { head, named, replaces, signal });
      }
      // The same archive was stored before.
      if (!blobsOf(named).has(blob)) await bucket.erase(layout.archive(key, blob), signal).catch(ignore);
      return { revision, metadata: metadataOf(change.version) };
    } catch (error) {
      if (isOwn) await eraseUnnamed(key, blob, { mayBeNamed, replaces, error }).catch(ignore);
      throw error;
    }
  };

  return {
    commit,
    async checkRoom(key, { sizeBytes, keep, most, session, signal }) {
      const { head } = await heads.read(key, signal);
      const others = await usage.others(key, { most, ownBytes: storedBytes(archivesOf(head)), signal });
      const older = olderBeside(head, { next: undefined, keep, most, session });
      withinQuota(key, { sizeBytes, ...older, others, most });
    },

    async dropCheckpoint(key, { session, signal }) {
      const { head, revision: replaces } = await heads.read(key, signal);
      if (head === undefined || !archivesOf(head).some((one) => isOfSession(session, one))) return false;
      const named = withoutCheckpoints(session, head);
      await replaceHead(key, { head, named, replaces, signal });
      return archivesOf(named).length < archivesOf(head).length;
    },

    async setName(key, { sha256, name }, signal) {
      const { head, revision: replaces } = await heads.read(key, signal);
      const outcome = nameOutcome(archivesOf(head), { sha256, name });
      const isNew = archiveNamed(archivesOf(head), name) === undefined;
      if (head !== undefined && outcome === "named" && isNew) {
        const named = eachOf(head, (one) => (one.sha256 === sha256 ? withName(one, name) : one));
        await replaceHead(key, { head, named, replaces, signal });
      }
      return outcome;
    },

    async dropName(key, name, signal) {
      const { head, revision: replaces } = await heads.read(key, signal);
      if (head === undefined || archiveNamed(archivesOf(head), name) === undefined) return false;
      const named = eachOf(head, (one) => withoutName(one, name));
      await replaceHead(key, { head, named, replaces, signal });
      return true;
    },
  };
}

function withNewest(
  key: SnapshotKey,
  described: S3Version,
  { head, others, keep, most }: Pick<CommitCall, "keep" | "most"> & { head: S3Head | undefined; others: OtherBytes },
): Change {
  const version = withNames({ ...described, ...descentOf(described, head?.versions[0]) }, archivesOf(head));
  const { sizeBytes, sha256, blob, session } = version;
  const older = olderBeside(head, { next: sha256, keep, most, session });
  const staying = withinQuota(key, { sizeBytes, sha256, ...older, others, most });
  // A version with the same content names this object, which certainly exists.
  const versions = [version, ...staying.map((one) => (one.sha256 === sha256 ? { ...one, blob } : one))];
  return { named: { versions }, version };
}

/** Without a change, `named` is the head. */
function withCheckpoint(
  key: SnapshotKey,
  checkpoint: S3Version,
  { head, others, most }: { head: S3Head | undefined; others: OtherBytes; most: MostKept },
): Change {
  const { sizeBytes, sha256, session } = checkpoint;
  const plan = planCheckpoint(checkpoint, archivesOf(head));
  const before = { versions: head?.versions ?? [], checkpoints: head?.checkpoints ?? [] };
  if (plan.kind === "present") {
    const { same, marked: version } = plan;
    const isOnly = archivesOf(head).filter((one) => isOfSession(session, one)).length === 1;
    if (version === same && isOnly) return { named: head ?? before, version };
    const marked = eachOf(before, (one) => (isSame(one, same) ? version : one));
    return { named: withoutCheckpoints(session, marked, sha256), version };
  }
  const surplus = new Set(surplusCheckpoints(session, [...before.checkpoints, ...before.versions.slice(1)]));
  const left = (archives: readonly S3Version[]) => archives.filter((one) => !surplus.has(one));
  // The newest archive is no checkpoint, so it stays the first.
  const versions = afterSession(session, left(before.versions));
  const checkpoints = afterSession(session, left(before.checkpoints));
  const staying = archivesOf({ versions, checkpoints });
  const bytesBefore = storedBytes(archivesOf(head));
  checkCheckpointQuota(key, { sizeBytes, sha256, staying, bytesBefore, others, most });
  const version = { ...checkpoint, kept: "replaced" as const };
  return { named: { versions, checkpoints: [version, ...checkpoints] }, version };
}

function eachOf({ versions, checkpoints = [] }: Named, change: (one: S3Version) => S3Version): Named {
  return { versions: versions.map(change), checkpoints: checkpoints.map(change) };
}

function isSame(a: S3Version, b: S3Version): boolean {
  return a.blob === b.blob && a.session === b.session && a.kind === b.kind;
}

/** The newest archive is no checkpoint, so it stays the first. */
function withoutCheckpoints(
  session: string | undefined,
  { versions, checkpoints = [] }: Named,
  except?: string,
): Named {
  const left = afterSession(session, checkpoints, except);
  return { versions: afterSession(session, versions, except), ...(left.length > 0 && { checkpoints: left }) };
}

/** The older versions beside a new archive, before limits, and the bytes that the key takes now. */
function olderBeside(
  head: S3Head | undefined,
  {
    next,
    keep,
    most,
    session,
  }: Pick<CommitCall, "keep" | "most"> & { next: string | undefined; session: string | undefined },
) {
  const older = afterSession(session, olderOf(head));
  const newest = head?.versions[0];
  const added = asOlder(newest && detached(session, newest), { keep, older, next });
  return {
    older: keptVersions(older, { added, next, most }),
    bytesBefore: storedBytes(archivesOf(head)),
  };
}

function ignore(): void {
  // The leftover is erased after a day.
}
