import { createHash } from "node:crypto";
import type { TarEntry } from "../../../crds/archive/tar-header.ts";
import type { ListedFile, ListReader } from "./file-list.ts";
import type { Folders } from "./folders.ts";
import { type PodTime, wasSetBack } from "./pod-time.ts";

/** Two changes of a file have different times if they are this far apart. */
export const TICK_NANOSECONDS = 10_000_000;

/**
 * Types of file systems, in hexadecimal, whose files show a later time from the first write to a mapped page on: ext4,
 * XFS, Btrfs and F2FS. A file system in memory never does, and others do only when they write the page out.
 */
export const TIMES_OF_MAPPED_FILES: ReadonlySet<string> = new Set(["ef53", "58465342", "9123683e", "f2f52010"]);

export const [TYPE, FILE, DIRECTORY, SYMLINK] = [0o170_000, 0o100_000, 0o040_000, 0o120_000];

/** The files of a pod right after a restore, before any program could change them. */
export interface RestoredFiles {
  /** A digest of the metadata of all files. */
  readonly digest: string;
  readonly at: PodTime;
  /** Undefined if they are too many. */
  readonly folders: Folders | undefined;
}

/** A digest of the entries that are unpacked into a pod. Its memory does not grow with their number. */
export interface EntryList {
  add(entry: TarEntry): void;
  digest(): string;
}

export function createEntryList(roots: readonly string[]): EntryList {
  const digest = createSetDigest();
  return {
    add({ type, path, mode, mtime, size }) {
      if (type === "directory" && roots.includes(path)) return;
      digest.add(`${kinds[type]} ${path}`);
      // A hard link is another name of a file: its entry has no mode and times.
      if (type !== "hardlink") digest.add(shown({ kind: kinds[type], path, mode, size, mtime }));
    },
    digest: digest.value,
  };
}

const kinds = { file: FILE, hardlink: FILE, directory: DIRECTORY, symlink: SYMLINK } as const;

/**
 * The metadata of an entry beside its name. Times of symlinks are left out, since they are not restored. A file's line
 * has no path, since a file can have several names: its ctime, and those of the directories above it, show a
 * replacement.
 */
function shown(entry: { kind: number; path: string; mode: number; size: number; mtime: number }): string {
  const { kind, path, mode, size, mtime } = entry;
  if (kind === SYMLINK) return "symlink";
  return kind === FILE ? `file ${mode} ${size} ${mtime}` : `directory ${mode} ${mtime} ${path}`;
}

/**
 * A digest of lines that does not depend on their order: the sum of their digests. A tenant who finds other lines with
 * the same sum could only prevent a save of their own files.
 */
function createSetDigest(): { add(line: string): void; value(): string } {
  let sum = 0n;
  return {
    add(line) {
      const digest = createHash("sha256").update(line, "latin1").digest("hex");
      sum = BigInt.asUintN(256, sum + BigInt(`0x${digest}`));
    },
    value: () => sum.toString(16),
  };
}

/** Checks whether the overlay directories of a pod have exactly the restored files. */
export interface UnchangedCheck extends ListReader {
  /**
   * Whether no file was changed since the restore. Call it once the list is complete. All names, types, modes, sizes
   * and times have to be the same, and each ctime has to be before the end of the restore: a program cannot set the ctime. Directories
   * count too: the files in a renamed directory keep their ctime
   * (docs/decisions/snapshots.md#unchanged-files-are-not-saved).
   *
   * In any doubt, the files count as changed.
   */
  isUnchanged(): boolean;
}

export function createUnchangedCheck(restored: RestoredFiles, { roots }: { roots: readonly string[] }): UnchangedCheck {
  const digest = createSetDigest();
  /** The inodes of files with several names. */
  const inodes = new Set<string>();
  const listed = new Set<string>();
  const fine = new Set<string>();
  const used = new Set<string>();
  let isBad = false;

  function isGood({ mode: raw, links, inode, size, mtime, mtimeText, ctime, path }: ListedFile): boolean {
    const root = roots.find((folder) => `${path}/`.startsWith(`${folder}/`));
    if (root === undefined || ctime >= restored.at.now) return false;
    const kind = raw & TYPE;
    const mode = raw & 0o7777;
    if (kind !== FILE && kind !== DIRECTORY && kind !== SYMLINK) return false;
    // The overlay directory itself belongs to the pod, not to the archive.
    if (path === root) {
      listed.add(root);
      return true;
    }
    // A restore sets whole seconds.
    if (kind !== SYMLINK && !mtimeText.endsWith(".000000000")) return false;
    used.add(root);
    if (Number(ctime.slice(-9)) % TICK_NANOSECONDS !== 0) fine.add(root);
    digest.add(`${kind} ${path}`);
    if (inodes.has(inode)) return true;
    if (kind === FILE && links !== 1) inodes.add(inode);
    digest.add(shown({ kind, path, mode, size, mtime }));
    return true;
  }

  return {
    time(time) {
      isBad ||= wasSetBack(restored.at, time);
    },
    fileSystem(type) {
      isBad ||= !TIMES_OF_MAPPED_FILES.has(type);
    },
    file(file) {
      // One changed file decides.
      isBad ||= !isGood(file);
    },
    end(vanished) {
      isBad ||= vanished > 0;
    },
    isUnchanged() {
      // If a file system rounds times down, a change may show no later time. So each used one has to show exact times.
      return !isBad && listed.size === roots.length && fine.size === used.size && digest.value() === restored.digest;
    },
  };
}
