import type { ArchiveTable, TableEntry } from "../../../crds/archive/archive-table.ts";
import { createEntryBits } from "../../../crds/archive/entry-bits.ts";
import type { ListedFile, ListReader } from "./file-list.ts";
import type { Folders } from "./folders.ts";
import { createListTrust } from "./list-trust.ts";
import { type ArchivedFiles, DIRECTORY, FILE, SYMLINK, TYPE } from "./unchanged-files.ts";

/** The shell in the pod gives them to tar as words, for which Linux has 2 MiB, or less with a limited stack. */
const MOST_NAME_BYTES = 256 * 1024;

/**
 * Types of file systems, in hexadecimal, on which a file gets a new ctime when its name is exchanged with that of
 * another one (`RENAME_EXCHANGE` of rename(2)): ext4 and Btrfs. On XFS only the folders do.
 */
const TIMES_OF_EXCHANGED_FILES: ReadonlySet<string> = new Set(["ef53", "9123683e"]);

/** What a save has to read of a pod, whose other files are in an archive. */
export interface Changes {
  /** The entries of the archive that stay, in its order. */
  readonly kept: readonly TableEntry[];
  /** The same, as `EntryBits`. */
  readonly keeps: Uint8Array;
  /** What has to be read, in the order of the list, quoted for a shell: folders without what is in them. */
  readonly names: Buffer;
  /** Bytes of the files among them, without a file whose other name has changed. */
  readonly bytes: number;
  /** Whether the archive has all files, and no others. */
  readonly isNothing: boolean;
}

/** Compares a list of a pod's files with an archive that was restored into it, or saved from it. */
export interface ChangeList extends ListReader {
  /** Call it once the list is complete. In any doubt it says why everything has to be read. */
  changes(): Changes | string;
}

/**
 * A file is the one of the archive if its size, mode and time are, its last change was before the end of the restore
 * or the save, and every folder above it has the inode that it had then. A program cannot set the time of the last
 * change; and a rename sets it for what is renamed, but not for what is below.
 */
export function createChangeList(
  base: ArchivedFiles & { readonly table: ArchiveTable; readonly folders: Folders },
  { roots }: { roots: readonly string[] },
): ChangeList {
  const { folders, at, settledBefore = at.now } = base;
  const archived = readEntries(base.table);
  const { entries, numberOf, fileOf } = archived;
  const kept = createEntryBits(new Uint8Array(Math.ceil(entries.length / 8)));
  const trust = createListTrust(at, { roots });
  /** What has to be read. */
  const paths = new Set<string>();
  /** The places in the list of what has to be read, or may still have to be: folders, and files with several names. */
  const places = new Map<string, number>();
  /** The names of files with several names, by inode. */
  const names = new Map<string, string[]>();
  let showsExchanges = true;
  /** Folders in which names may have been exchanged, which shows in no file. */
  const touched = new Set<string>();
  /** Folders that are where they were, as are all above them. */
  const still = new Set<string>();
  let place = 0;
  let bytes = 0;

  /** Whether the archive has this file, and under which number. */
  function keptAs(file: ListedFile, kind: number): number | undefined {
    const number = numberOf(file.path);
    const entry = number === undefined ? undefined : entries[fileOf(number)];
    if (entry === undefined) return undefined;
    if (kind === DIRECTORY) return entry.type === "directory" && hasModeAndTime(file, entry) ? number : undefined;
    const parent = parentOf(file.path);
    if (file.ctime >= settledBefore || !still.has(parent)) return undefined;
    if (touched.has(parent) && (kind === SYMLINK || archived.hasLike(entry))) return undefined;
    if (kind === SYMLINK) return entry.type === "symlink" ? number : undefined;
    const isSame = entry.type === "file" && hasModeAndTime(file, entry) && entry.size === file.size;
    // A restore sets whole seconds.
    const isExact = base.settledBefore !== undefined || file.mtimeText.endsWith(".000000000");
    return isSame && isExact ? number : undefined;
  }

  /**
   * All folders above are read too: a program that unpacks the archive makes them with what is in them, and sets their
   * times after that.
   */
  function read(path: string): void {
    if (paths.has(path)) return;
    paths.add(path);
    const number = numberOf(path);
    if (number !== undefined) kept.delete(number);
    if (!roots.includes(path)) read(parentOf(path));
  }

  function take(file: ListedFile): void {
    const { path, inode, ctime } = file;
    const kind = file.mode & TYPE;
    if (kind === DIRECTORY && ctime >= settledBefore && !showsExchanges) touched.add(path);
    if (kind === DIRECTORY && (roots.includes(path) || still.has(parentOf(path))) && folders.has(file)) still.add(path);
    // Others have no content and are not saved.
    if (kind !== FILE && kind !== DIRECTORY && kind !== SYMLINK) return;
    if (kind !== DIRECTORY && file.links > 1) {
      const all = names.get(inode) ?? [];
      all.push(path);
      names.set(inode, all);
    }
    const number = keptAs(file, kind);
    if (number === undefined) {
      read(path);
      if (kind === FILE) bytes += file.size;
    } else kept.add(number);
    place += 1;
    if (number === undefined || kind === DIRECTORY || file.links > 1) places.set(path, place);
  }

  /** The names of one file stay together, if they are those of one file of the archive, or all are read. */
  function checkNames(all: readonly string[]): void {
    const numbers = all.map((path) => numberOf(path) ?? -1);
    const isOne = new Set(numbers.map(fileOf)).size === 1;
    if (!isOne || !numbers.every(kept.has)) for (const path of all) read(path);
  }

  return {
    ...trust,
    fileSystem(type) {
      trust.fileSystem(type);
      showsExchanges &&= TIMES_OF_EXCHANGED_FILES.has(type);
    },
    file(file) {
      if (trust.file(file)) take(file);
    },
    changes() {
      const doubt = trust.doubt();
      if (doubt !== undefined) return doubt;
      if (archived.hasTwice) return "the archive has a path twice";
      for (const all of names.values()) checkNames(all);
      const staying = entries.filter((_, number) => kept.has(number));
      if (entries.some((_, number) => kept.has(number) && !kept.has(fileOf(number))))
        return "a hard link would stay without its file";
      const inOrder = [...paths].sort((a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0));
      const quotedNames = Buffer.from(inOrder.map(quoted).join(" "), "latin1");
      if (quotedNames.length > MOST_NAME_BYTES) return "the names of what has changed are too many";
      const isNothing = paths.size === 0 && staying.length === entries.length;
      return { kept: staying, keeps: kept.bytes, names: quotedNames, bytes, isNothing };
    },
  };
}

/** The entries of an archive, by their numbers in its table. */
function readEntries(table: ArchiveTable): {
  readonly entries: readonly TableEntry[];
  /** Whether two have the same path. */
  readonly hasTwice: boolean;
  /** Whether a file with other content has the same size, mode and time. */
  hasLike(entry: TableEntry): boolean;
  numberOf(path: string): number | undefined;
  /** Of a hard link, the number of its file; -1 if that is not in the archive. Of any other entry, its own. */
  fileOf(number: number): number;
} {
  const entries = [...table.entries()];
  const numbers = new Map<string, number>();
  const files = new Map<number, number>();
  /** The digest of the files that look so; undefined if there are several. */
  const digests = new Map<string, string | undefined>();
  for (const [number, entry] of entries.entries()) {
    const { path, type, target, sha256 } = entry;
    if (type === "file") {
      const looks = looksOf(entry);
      digests.set(looks, !digests.has(looks) || digests.get(looks) === sha256 ? sha256 : undefined);
    }
    const file = type === "hardlink" ? (numbers.get(target) ?? -1) : undefined;
    if (file !== undefined) files.set(number, files.get(file) ?? file);
    numbers.set(path, number);
  }
  return {
    entries,
    hasTwice: numbers.size < entries.length,
    hasLike: (entry) => digests.get(looksOf(entry)) === undefined,
    numberOf: (path) => numbers.get(path),
    fileOf: (number) => files.get(number) ?? number,
  };
}

function looksOf({ size, mode, mtime }: TableEntry): string {
  return `${size} ${mode} ${mtime}`;
}

function hasModeAndTime(file: ListedFile, { mode, mtime }: TableEntry): boolean {
  return (file.mode & 0o7777) === mode && file.mtime === mtime;
}

/** A name for a shell. */
function quoted(name: string): string {
  return `'${name.replaceAll("'", "'\\''")}'`;
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}
