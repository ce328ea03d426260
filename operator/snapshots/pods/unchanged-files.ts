import { createHash } from "node:crypto";
import type { TarEntry } from "../../../crds/archive/tar-header.ts";
import type { ListedFile, ListReader } from "./file-list.ts";
import { type PodTime, wasSetBack } from "./pod-time.ts";

/** Two changes of a file that are this far apart have different times. */
const TICK_NANOSECONDS = 10_000_000;

/**
 * Types of file systems, in hexadecimal digits, whose files show a later time from the first write to a mapped page on:
 * ext4, XFS, Btrfs and F2FS. One in memory never does, and others do so when they write the page out.
 */
export const TIMES_OF_MAPPED_FILES: ReadonlySet<string> = new Set(["ef53", "58465342", "9123683e", "f2f52010"]);

export const [TYPE, FILE, DIRECTORY, SYMLINK] = [0o170_000, 0o100_000, 0o040_000, 0o120_000];

/** The files of a pod as a restore has left them, before anything else could change them. */
export interface RestoredFiles {
  /** A digest of what is known of each. */
  readonly digest: string;
  readonly at: PodTime;
}

/** Takes note of the entries that are unpacked into a pod, in memory that does not depend on how many they are. */
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
      // Other names of a file are entries of their own, without its mode and times.
      if (type !== "hardlink") digest.add(shown({ kind: kinds[type], path, mode, size, mtime }));
    },
    digest: digest.value,
  };
}

const kinds = { file: FILE, hardlink: FILE, directory: DIRECTORY, symlink: SYMLINK } as const;

/**
 * What is known of an entry beside its name. Times of symlinks are not kept. A file is not told from another here, since
 * it can have several names: that neither its ctime has moved nor that of a directory above it tells that it is the same.
 */
function shown(entry: { kind: number; path: string; mode: number; size: number; mtime: number }): string {
  const { kind, path, mode, size, mtime } = entry;
  if (kind === SYMLINK) return "symlink";
  return kind === FILE ? `file ${mode} ${size} ${mtime}` : `directory ${mode} ${mtime} ${path}`;
}

/**
 * A digest of lines in no order: the sum of their digests. Whoever could find other lines of the same sum would keep
 * only a save of their own files from being made.
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

/** Tells whether the overlay directories of a pod hold what was restored into them. */
export interface UnchangedCheck extends ListReader {
  /**
   * Whether nothing was changed since the restore, when the list is whole: the same names, types, modes, sizes and
   * times, and nothing with a ctime after the restore, which nobody can set. Directories count too: one that is renamed
   * takes files along whose ctime stays
   * (docs/decisions/snapshots.md#unchanged-files-are-not-saved).
   *
   * Any doubt is a no.
   */
  isUnchanged(): boolean;
}

export function createUnchangedCheck(restored: RestoredFiles, { roots }: { roots: readonly string[] }): UnchangedCheck {
  const digest = createSetDigest();
  /** Of files with several names. */
  const inodes = new Set<string>();
  const listed = new Set<string>();
  const fine = new Set<string>();
  const used = new Set<string>();
  let isBad = false;

  function isGood({ mode: raw, links, inode, size, mtime, mtimeText, ctime, path }: ListedFile): boolean {
    const root = roots.find((folder) => `${path}/`.startsWith(`${folder}/`));
    if (root === undefined || ctime > restored.at.now) return false;
    const kind = raw & TYPE;
    const mode = raw & 0o7777;
    if (kind !== FILE && kind !== DIRECTORY && kind !== SYMLINK) return false;
    // The directory itself is the pod's, and not of the archive.
    if (path === root) {
      listed.add(root);
      return true;
    }
    // Whole seconds are restored.
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
      // What was changed is changed, whatever follows.
      isBad ||= !isGood(file);
    },
    end(vanished) {
      isBad ||= vanished > 0;
    },
    isUnchanged() {
      // Of a file system that rounds times down, a change may show no later time.
      return !isBad && listed.size === roots.length && fine.size === used.size && digest.value() === restored.digest;
    },
  };
}
