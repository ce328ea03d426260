import { createHash } from "node:crypto";
import type { TarEntry } from "../../../crds/archive/tar-header.ts";
import type { ListedFile, ListReader } from "./file-list.ts";
import type { Folders } from "./folders.ts";
import { createListTrust } from "./list-trust.ts";
import type { PodTime } from "./pod-time.ts";

export const [TYPE, FILE, DIRECTORY, SYMLINK] = [0o170_000, 0o100_000, 0o040_000, 0o120_000];

/** The files of a pod at one moment, which an archive has. A later list shows what has changed since. */
export interface ArchivedFiles {
  readonly at: PodTime;
  /** Undefined if they are too many. */
  readonly folders: Folders | undefined;
  /**
   * A ctime: what was changed from then on may have changed after it was read. @default `at`, for files that no program
   * could change yet
   */
  readonly settledBefore?: string | undefined;
}

/** The files of a pod right after a restore, before any program could change them. */
export interface RestoredFiles extends ArchivedFiles {
  /** A digest of the metadata of all files. */
  readonly digest: string;
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
   * and times have to be the same, and each ctime has to be before the end of the restore: a program cannot set it.
   * Directories count too: the files in a renamed directory keep their ctime
   * (docs/decisions/snapshots.md#unchanged-files-are-not-saved).
   *
   * In any doubt, the files count as changed.
   */
  isUnchanged(): boolean;
}

export function createUnchangedCheck(restored: RestoredFiles, { roots }: { roots: readonly string[] }): UnchangedCheck {
  const digest = createSetDigest();
  const trust = createListTrust(restored.at, { roots });
  /** The inodes of files with several names. */
  const inodes = new Set<string>();
  let isChanged = false;

  function isGood({ mode: raw, links, inode, size, mtime, mtimeText, ctime, path }: ListedFile): boolean {
    if (ctime >= restored.at.now) return false;
    const kind = raw & TYPE;
    const mode = raw & 0o7777;
    if (kind !== FILE && kind !== DIRECTORY && kind !== SYMLINK) return false;
    // The overlay directory itself belongs to the pod, not to the archive.
    if (roots.includes(path)) return true;
    // A restore sets whole seconds.
    if (kind !== SYMLINK && !mtimeText.endsWith(".000000000")) return false;
    digest.add(`${kind} ${path}`);
    if (inodes.has(inode)) return true;
    if (kind === FILE && links !== 1) inodes.add(inode);
    digest.add(shown({ kind, path, mode, size, mtime }));
    return true;
  }

  return {
    ...trust,
    file(file) {
      // One changed file decides.
      isChanged ||= !(trust.file(file) && isGood(file));
    },
    isUnchanged: () => !isChanged && trust.doubt() === undefined && digest.value() === restored.digest,
  };
}
