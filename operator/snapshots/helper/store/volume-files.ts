import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { link, open, readdir, rename, rm, rmdir, stat, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import { type KeptAs, StoreError } from "../../../../crds/snapshots/snapshot-store.ts";
import { readSmallFile } from "./read-small-file.ts";

/** How many digits of its SHA-256 are in the file names of an archive. */
const DIGITS = 16;
export const READ_BYTES = 512 * 1024;

/** An archive's file and its metadata. */
export interface StoredFile {
  readonly path: string;
  readonly sizeBytes: number;
  /**
   * The latest of three times: created, written, last used; in milliseconds since the epoch. The first comes from the
   * operator's clock, the others from a node's, and each clock may be behind. The last use is the time of the
   * metadata's file, since a copy can be another name of the same archive. The time of the archive counts too: earlier
   * versions set it.
   */
  readonly usedMs: number;
  /** Undefined if no metadata matches the file. */
  readonly metadata: SnapshotMetadata | undefined;
  /** The id of the commit that made it the newest; undefined if an earlier version wrote it. */
  readonly commit: string | undefined;
  /** Why this older version is kept; undefined if an earlier version of the program kept it. */
  readonly kept: KeptAs | undefined;
  /** Of an older version: higher than the order of those kept before it. */
  readonly order: number;
  readonly inode: bigint;
  /** Whether the file has another name, for example as a copy. */
  readonly isShared: boolean;
  /** Unique for this state of this file. */
  readonly identity: string;
}

/** The space of a volume, in bytes. */
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

/** The path of an archive's metadata: each SHA-256 has its own file. */
export function recordPath(archive: string, sha256: string): string {
  return `${archive}.${digitsOf(sha256)}.json`;
}

/**
 * Reads an archive's state; undefined if there is no archive.
 *
 * @param names of the files in its folder, if they were just read
 * @throws Error if the volume cannot be read: that must not look like a tenant without files
 */
export async function readStored(path: string, names?: readonly string[]): Promise<StoredFile | undefined> {
  let before: string | undefined;
  for (;;) {
    const stored = await readOnce(path, before === undefined ? names : undefined);
    // If a commit in between has replaced the archive and deleted its metadata, read again.
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

/** All metadata for archives of this path. At most one of these archives exists. */
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

/** After a crash, or if the previous archive has the same size, only the archive's SHA-256 shows its metadata. */
async function bySha256(path: string, records: readonly ReadRecord[]): Promise<ReadRecord | undefined> {
  if (records.length === 0) return undefined;
  // If it was deleted since, the caller reads again.
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

/** Writes metadata atomically and syncs it to the disk. */
export async function writeRecord(path: string, { metadata, ...others }: ArchiveRecord, id: string): Promise<void> {
  const text = `${JSON.stringify({ ...metadata, ...others })}\n`;
  await replaceFile(path, text, { partial: `${path}.${id}.partial`, flag: "wx" });
}

/**
 * Writes a file atomically, and syncs it to the disk, but not its folder.
 *
 * @param options.partial what it is called until it is whole
 * @param options.flag `wx` fails if a file of that name is there
 */
export async function replaceFile(
  path: string,
  text: string,
  { partial, flag }: { partial: string; flag: "w" | "wx" },
): Promise<void> {
  const handle = await open(partial, flag, 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
  await rename(partial, path);
}

/**
 * Writes other metadata of a file that stays as it is.
 *
 * @param options.check called before: if this server was suspended, another one may have changed the record since
 */
export async function rewriteRecord(
  { path, commit, kept, order }: Pick<StoredFile, "path" | "commit" | "kept" | "order">,
  metadata: SnapshotMetadata,
  { check }: { check: () => Promise<void> },
): Promise<void> {
  await check();
  const id = randomBytes(16).toString("hex");
  await writeRecord(recordPath(path, metadata.sha256), { metadata, commit, kept, order }, id);
  await syncFolders(dirname(path));
}

/** Whether a path is a file that was read before. */
export async function isFile(
  path: string,
  { inode, sizeBytes, sha256 }: Pick<StoredFile, "inode" | "sizeBytes"> & { sha256: string | undefined },
): Promise<boolean> {
  const { ino, size } = await stat(path, { bigint: true });
  if (ino === inode && Number(size) === sizeBytes) return true;
  // It may be a copy, and some volumes renumber their files.
  return sha256 !== undefined && (await sha256Of(path)) === sha256;
}

/**
 * Gives a file a second name; a volume without hard links gets a copy.
 *
 * @param to.check called before the file gets the name; if it throws, the call fails
 * @returns whether the file has the name; false if another file has replaced it
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
    // A failed copy leaves a part, and a rename leaves both names if they are of one file already.
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

/** Syncs the names in folders to the disk. */
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

/** The result of a call; undefined if the file or folder does not exist. Other errors are thrown. */
export async function ifThere<T>(read: Promise<T>): Promise<T | undefined> {
  return await unless(["ENOENT"], read);
}

/** As `ifThere`; undefined also if a plain file has the place of the folder. */
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
    // On a read-only disk, the failure before this one reports it.
    if (!["ENOTEMPTY", "EEXIST", "ENOENT", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}

export function cannotStore(why: string): StoreError {
  return new StoreError(`Cannot store the archive: ${why}`, { isTransient: false });
}
