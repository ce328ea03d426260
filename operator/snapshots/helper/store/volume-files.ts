import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { link, open, readdir, rename, rm, rmdir, stat, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import { type KeptAs, StoreError } from "../../../../crds/snapshots/snapshot-store.ts";
import { readSmallFile } from "./read-small-file.ts";

/** How many digits of its SHA-256 name an archive in names of files. */
const DIGITS = 16;
export const READ_BYTES = 512 * 1024;

/** An archive's file, and what is recorded beside it. */
export interface StoredFile {
  readonly path: string;
  readonly sizeBytes: number;
  /**
   * When it was made, written or last in use, in milliseconds since the epoch: the latest, since the first is told by
   * the operator's clock and the others by a node's, and either may be behind. Its record's time says when it was in
   * use, since a copy can be another name of the same file; the file's counts too, which the versions before have set.
   */
  readonly usedMs: number;
  /** What is recorded of it; undefined where nothing fits it. */
  readonly metadata: SnapshotMetadata | undefined;
  /** What made it the newest; undefined of what earlier versions have written. */
  readonly commit: string | undefined;
  /** Of an older version; undefined of those that earlier versions have kept. */
  readonly kept: KeptAs | undefined;
  /** Of an older version: higher than those that were kept before it. */
  readonly order: number;
  readonly inode: bigint;
  /** Whether the file has another name, as of a copy. */
  readonly isShared: boolean;
  /** Of the file as it was seen, of which there is never another with the same. */
  readonly identity: string;
}

/** What a volume has, in bytes. */
export type ReadSpace = () => Promise<{ readonly freeBytes: number; readonly totalBytes: number }>;

export async function readSpace(root: string): ReturnType<ReadSpace> {
  const { bavail, blocks, bsize } = await statfs(root);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}

/** Paths of a key's archives below the root of the volume (docs/explanation/files.md#where-snapshots-are-stored). */
export function placesOf(root: string, { tenantId, workloadRef }: SnapshotKey) {
  const folder = join(root, tenantId);
  return {
    folder,
    archive: join(folder, `${workloadRef}.tar.gz`),
    versions: join(folder, ".versions", workloadRef),
  };
}

export function digitsOf(sha256: string): string {
  return sha256.slice(0, DIGITS);
}

/** The path of what is recorded of an archive: a file of its own for each SHA-256. */
export function recordPath(archive: string, sha256: string): string {
  return `${archive}.${digitsOf(sha256)}.json`;
}

/**
 * Looks at an archive; undefined when there is none.
 *
 * @param names what is in its folder, where that was read a moment ago
 * @throws Error where the volume cannot be read, which must not look like a tenant without files
 */
export async function readStored(path: string, names?: readonly string[]): Promise<StoredFile | undefined> {
  let before: string | undefined;
  for (;;) {
    const stored = await readOnce(path, before === undefined ? names : undefined);
    // A commit in between has deleted what was recorded of the archive that was seen, and another is there.
    if (stored === undefined || stored.metadata !== undefined || stored.identity === before) return stored;
    before = stored.identity;
  }
}

async function readOnce(path: string, names: readonly string[] | undefined): Promise<StoredFile | undefined> {
  const found = await ifThere(stat(path, { bigint: true }));
  if (found === undefined) return undefined;
  const { ino, nlink, size, mtimeNs, ctimeNs, mtimeMs } = found;
  const identity = `${ino}.${size}.${mtimeNs}.${ctimeNs}`;
  const sizeBytes = Number(size);
  const recorded = (await readRecords(path, names)).filter(({ metadata }) => metadata.sizeBytes === sizeBytes);
  const [only] = recorded;
  const fits = recorded.length === 1 ? only : await bySha256(path, recorded);
  const createdMs = Date.parse(fits?.metadata.createdAt ?? "") || 0;
  return {
    path,
    sizeBytes,
    usedMs: Math.max(Number(mtimeMs), fits?.usedMs ?? 0, createdMs),
    metadata: fits?.metadata,
    commit: fits?.commit,
    kept: fits?.kept,
    order: fits?.order ?? createdMs,
    inode: ino,
    isShared: nlink > 1n,
    identity,
  };
}

interface ArchiveRecord {
  readonly metadata: SnapshotMetadata;
  readonly commit: string | undefined;
  readonly kept?: KeptAs | undefined;
  readonly order?: number | undefined;
}

interface ReadRecord extends ArchiveRecord {
  /** When the archive was last in use, in milliseconds since the epoch. */
  readonly usedMs: number;
}

/** All that is recorded of archives of this path, of which one at most is there. */
async function readRecords(path: string, known: readonly string[] | undefined): Promise<ReadRecord[]> {
  const [folder, name] = [dirname(path), basename(path)];
  const names = known ?? (await ifThere(readdir(folder))) ?? [];
  const records = await Promise.all(
    names.filter((found) => isRecordOf(name, found)).map(async (found) => readRecord(join(folder, found))),
  );
  return records.filter((record) => record !== undefined);
}

async function readRecord(path: string): Promise<ReadRecord | undefined> {
  const read = await readSmallFile(path);
  const metadata = read && parseSnapshotMetadata(read.text);
  if (read === undefined || metadata === undefined || !path.endsWith(`.${digitsOf(metadata.sha256)}.json`))
    return undefined;
  const { text, mtimeMs: usedMs } = read;
  const { commit, kept, order } = JSON.parse(text) as { commit?: unknown; kept?: unknown; order?: unknown };
  return {
    ...{ metadata, usedMs, commit: typeof commit === "string" ? commit : undefined },
    kept: kept === "history" || kept === "replaced" ? kept : undefined,
    order: typeof order === "number" ? order : undefined,
  };
}

/** After a crash, or where the one before has the same size, only the archive itself says which record is its own. */
async function bySha256(path: string, records: readonly ReadRecord[]): Promise<ReadRecord | undefined> {
  if (records.length === 0) return undefined;
  // One that was deleted since is looked at again.
  const sha256 = await ifThere(sha256Of(path));
  return records.find(({ metadata }) => metadata.sha256 === sha256);
}

export async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: READ_BYTES }), hash);
  return hash.digest("hex");
}

export function isRecordOf(archiveName: string, name: string): boolean {
  return name.startsWith(`${archiveName}.`) && /^[0-9a-f]{16}\.json$/.test(name.slice(archiveName.length + 1));
}

/** Writes a record, whole or not at all, and has it on the disk. */
export async function writeRecord(path: string, { metadata, ...others }: ArchiveRecord, id: string): Promise<void> {
  const partial = `${path}.${id}.partial`;
  const handle = await open(partial, "wx", 0o600);
  try {
    await handle.writeFile(`${JSON.stringify({ ...metadata, ...others })}\n`);
    await handle.sync();
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
  await rename(partial, path);
}

/** Whether a path names a file that was seen. */
export async function isFile(
  path: string,
  { inode, sizeBytes, sha256 }: Pick<StoredFile, "inode" | "sizeBytes"> & { sha256: string | undefined },
): Promise<boolean> {
  const { ino, size } = await stat(path, { bigint: true });
  if (ino === inode && Number(size) === sizeBytes) return true;
  // A copy; and some volumes number their files anew.
  return sha256 !== undefined && (await sha256Of(path)) === sha256;
}

/**
 * Gives a file that was seen another name beside its own; a volume without hard links gets a copy.
 *
 * @param to.check called when it is there, before it has the name; what it throws, the call fails with
 * @returns whether it has; false where another has taken its place since
 */
export async function linkOrCopy(
  from: Pick<StoredFile, "path" | "inode" | "sizeBytes"> & { sha256: string },
  to: { path: string; id: string; check?: () => Promise<void> },
): Promise<boolean> {
  const partial = `${to.path}.${to.id}.partial`;
  try {
    try {
      await link(from.path, partial);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") throw error;
      await copy(from.path, partial);
    }
    if (!(await isFile(partial, from))) return false;
    await to.check?.();
    await rename(partial, to.path);
    return true;
  } finally {
    // Of a copy that failed; and where both names are of one file already, a rename leaves both.
    await rm(partial, { force: true });
  }
}

async function copy(from: string, to: string): Promise<void> {
  const target = await open(to, "wx", 0o600);
  try {
    for await (const chunk of createReadStream(from, { highWaterMark: READ_BYTES })) await target.writeFile(chunk);
    await target.sync();
  } finally {
    await target.close();
  }
}

/** Has the names in folders on the disk. */
export async function syncFolders(...folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const handle = await open(folder, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}

/** What a call gives, or undefined where there is no such file or folder; every other failure stays one. */
export async function ifThere<T>(read: Promise<T>): Promise<T | undefined> {
  return await unless(["ENOENT"], read);
}

/** As `ifThere`, for what passes over a plain file where a folder would be. */
export async function ifFolder<T>(read: Promise<T>): Promise<T | undefined> {
  return await unless(["ENOENT", "ENOTDIR"], read);
}

async function unless<T>(codes: readonly string[], read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (codes.includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

export async function removeIfEmpty(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch (error) {
    // On a disk that cannot be written to, what failed before this says so.
    if (!["ENOTEMPTY", "EEXIST", "ENOENT", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}

export function cannotStore(why: string): StoreError {
  return new StoreError(`Cannot store the archive: ${why}`, { isTransient: false });
}
