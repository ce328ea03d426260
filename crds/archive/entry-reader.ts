import { ArchiveError, quote } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import { createPathKinds, type PathKind } from "./path-kinds.ts";
import type { TarEntry, TarEntryType, TarHeader } from "./tar-header.ts";

/** Data of an entry from preceding entries, if its own fields were too short: GNU's format, and pax's. */
export interface GivenNames {
  readonly path?: string | undefined;
  readonly target?: string | undefined;
  readonly size?: number | undefined;
}

export interface EntryReader {
  /**
   * Checks the entry of a header; undefined for one that is left out.
   *
   * @param given data from preceding entries; the size is already in the header
   * @throws ArchiveError for everything that is not allowed in such an archive
   */
  read(header: TarHeader, given: GivenNames): TarEntry | undefined;
  /** The kind of a path of overlay directories, according to the entries so far. */
  kindOf(path: string): PathKind | undefined;
}

/** Rules for every archive, whatever program packed it. */
export interface EntryRules {
  /** Counts an entry. @throws ArchiveError if there are too many */
  count(): void;
  /** @throws ArchiveError unless the path is plain, relative, not too long and not behind a symlink */
  checkPath(path: string, what: string): void;
  /** @throws ArchiveError if the entry has none of the allowed types */
  typeOf(header: TarHeader, path: string): TarEntryType;
  /** Checks a symlink; no later entry may lie behind it. @throws ArchiveError if its target is missing or too long */
  checkTarget(path: string, target: string): void;
  /** Whether the path is that of a symlink, or another name of one. */
  isSymlink(path: string): boolean;
  /** Records another name of a symlink; no later entry may lie behind it. @throws ArchiveError as `remember` does */
  addSymlink(path: string): void;
}

const types: Readonly<Record<string, TarEntryType>> = {
  "0": "file",
  "1": "hardlink",
  "2": "symlink",
  "5": "directory",
};
const kinds: Readonly<Record<string, string>> = {
  "3": "a character device",
  "4": "a block device",
  "6": "a named pipe",
};
const maxPartBytes = 255;

export function createEntryRules(limits: ArchiveLimits): EntryRules {
  const { maxDepth = Number.POSITIVE_INFINITY } = limits;
  const symlinks = createSymlinkTree(limits);
  let entries = 0;
  let rememberedBytes = 0;

  function addSymlink(path: string): void {
    rememberedBytes += path.length + 64;
    if (rememberedBytes > limits.maxRememberedBytes) {
      throw new ArchiveError("TooLarge", `the names of its links take more than ${limits.maxRememberedBytes} bytes`);
    }
    symlinks.add(path.split("/"));
  }

  return {
    addSymlink,
    isSymlink: (path) => symlinks.has(path.split("/")),
    count() {
      entries += 1;
      if (entries > limits.maxEntries) {
        throw new ArchiveError("TooLarge", `it holds more than ${limits.maxEntries} entries`);
      }
    },
    checkPath(path, what) {
      const shown = `${what} "${quote(path)}"`;
      if (path.length > limits.maxPathBytes) {
        throw new ArchiveError("TooLarge", `the path of ${shown} is longer than ${limits.maxPathBytes} bytes`);
      }
      if (path.startsWith("/")) throw new ArchiveError("Hostile", `${shown} has an absolute path`);
      const parts = path.split("/");
      if (parts.length > maxDepth) {
        throw new ArchiveError("TooLarge", `${shown} has more than ${maxDepth} names in its path`);
      }
      for (const part of parts) {
        if (part === "" || part === "." || part === "..") {
          throw new ArchiveError("Hostile", `${shown} has no plain path`);
        }
        if (part.length > maxPartBytes) throw new ArchiveError("Hostile", `${shown} has a name that is too long`);
      }
      if (symlinks.isAbove(parts)) throw new ArchiveError("Hostile", `${shown} lies behind a symlink`);
    },
    typeOf(header, path) {
      const type = types[header.type];
      if (type === undefined) {
        const kind = kinds[header.type] ?? `of the unknown type "${quote(header.type)}"`;
        throw new ArchiveError("Hostile", `entry "${quote(path)}" is ${kind}`);
      }
      if (type !== "file" && header.size !== 0) {
        throw new ArchiveError("Hostile", `entry "${quote(path)}" is a ${type} with a content`);
      }
      return type;
    },
    checkTarget(path, target) {
      if (target === "" || target.length > limits.maxPathBytes) {
        throw new ArchiveError("Hostile", `the symlink "${quote(path)}" has no target, or too long a one`);
      }
      addSymlink(path);
    },
  };
}

/**
 * The symlinks of an archive as a tree of names. With a set of paths, a path of many folders would be hashed once for
 * each folder.
 *
 * `maxEntries` folders limit its memory. An archive that a save wrote has an entry for each folder, so it never has
 * more.
 */
function createSymlinkTree({ maxEntries }: ArchiveLimits) {
  /** Numbers of folders and links, by the number of the folder that they are in and their name. */
  const nodes = new Map<string, number>();
  const links = new Set<number>();

  /** The numbers of a path's names, as far as they are known. */
  function* along(parts: readonly string[]): Generator<number> {
    let node: number | undefined = 0;
    for (const part of parts) {
      node = nodes.get(`${node}/${part}`);
      if (node === undefined) return;
      yield node;
    }
  }

  return {
    has(parts: readonly string[]): boolean {
      const found = [...along(parts)];
      return found.length === parts.length && links.has(found.at(-1) ?? 0);
    },
    /** Whether one of the folders of a path is a symlink. */
    isAbove(parts: readonly string[]): boolean {
      for (const node of along(parts.slice(0, -1))) if (links.has(node)) return true;
      return false;
    },
    /** @throws ArchiveError if the symlinks lie in too many folders */
    add(parts: readonly string[]): void {
      const known = [...along(parts)];
      let node = known.at(-1) ?? 0;
      for (const part of parts.slice(known.length)) {
        const key = `${node}/${part}`;
        node = nodes.size + 1;
        nodes.set(key, node);
      }
      links.add(node);
      if (nodes.size - links.size > maxEntries) {
        throw new ArchiveError("TooLarge", `its links lie in more than ${maxEntries} folders`);
      }
    },
  };
}

/** A path without the `./` that `tar -C folder .` begins every path with. */
export function withoutDot(path: string): string {
  return path.startsWith("./") ? path.slice(2) : path;
}

/**
 * Whether an entry is the folder itself that was packed.
 *
 * @throws ArchiveError if it is the root, or has a content
 */
export function isFolderItself({ type, size }: TarHeader, named: string): boolean {
  if (type !== "5" || !["", ".", "./", "/"].includes(named)) return false;
  if (size !== 0) throw new ArchiveError("Hostile", "its folder has a content");
  if (named === "" || named === "/") throw new ArchiveError("Hostile", 'entry "/" has an absolute path');
  return true;
}

/**
 * Accepts the entries that are allowed in an archive of overlay directories. Save, upload and restore use the same
 * rules: an archive that one of them accepts can be unpacked into empty directories by a restore.
 *
 * A symlink may have any target: it is resolved inside the pod. But nothing may be written through one, so no entry and
 * no hard link's target may lie below a symlink.
 *
 * @param options.roots undefined for any folder: every plain relative path is allowed, also after `./`, and the entry
 * of the folder itself is left out
 * @param options.leaveOutPipes whether named pipes, with the links to them, are left out instead of refused
 * @param options.onDangling receives a hard link whose target does not come before it; the link is left out. @default
 * such an archive is refused
 */
export function createEntryReader(options: {
  roots: readonly string[] | undefined;
  limits: ArchiveLimits;
  leaveOutPipes: boolean;
  onDangling?: ((link: { path: string; target: string }) => void) | undefined;
}): EntryReader {
  const { roots, limits, onDangling } = options;
  const { maxContentBytes = Number.POSITIVE_INFINITY, maxRememberedBytes } = limits;
  const rules = createEntryRules(limits);
  const kinds = createPathKinds(limits);
  let contentBytes = 0;
  let rememberedBytes = 0;
  const isRoot = (path: string): boolean => roots?.includes(path) === true;
  const inFolder = (path: string): string => (roots === undefined ? withoutDot(path) : path);

  function checkPath(path: string, what: string): void {
    rules.checkPath(path, what);
    if (roots !== undefined && !roots.some((root) => path === root || path.startsWith(`${root}/`))) {
      throw new ArchiveError("Hostile", `${what} "${quote(path)}" is outside the overlay directories`);
    }
  }

  function countContent(size: number): void {
    contentBytes += size;
    if (contentBytes > maxContentBytes) {
      const fits = `${maxContentBytes} bytes, all that fits on the disk (resources.diskGb)`;
      throw new ArchiveError("TooLarge", `its files have more than ${fits}; one with holes is restored without them`);
    }
  }

  /** A restore sets the modes of these entries, and the times of directories, after it has unpacked everything else. */
  function countRemembered(path: string): void {
    rememberedBytes += path.length + 128;
    if (rememberedBytes > maxRememberedBytes) {
      throw new ArchiveError("TooLarge", `the names of its directories take more than ${maxRememberedBytes} bytes`);
    }
  }

  return {
    kindOf: kinds.get,
    read(header, given) {
      rules.count();
      const named = given.path ?? header.name;
      if (roots === undefined && isFolderItself(header, named)) return undefined;
      const path = inFolder(header.type === "5" ? named.replace(/\/$/, "") : named);
      checkPath(path, "entry");
      if (header.type === "6" && options.leaveOutPipes) {
        kinds.add(path, "pipe");
        return undefined;
      }
      const type = rules.typeOf(header, path);
      if (type !== "directory" && isRoot(path)) {
        throw new ArchiveError("Hostile", `entry "${quote(path)}" takes the place of an overlay directory`);
      }
      const { mode, uid, gid, mtime, size } = header;
      const linked = type === "symlink" || type === "hardlink" ? (given.target ?? header.linkName) : "";
      const target = type === "hardlink" ? inFolder(linked) : linked;
      if (type === "hardlink") {
        checkPath(target, `the target of "${quote(path)}",`);
        const kind = kinds.get(target);
        if (kind === undefined || kind === "directory") {
          const shown = `the hard link "${quote(path)}" points at "${quote(target)}", which is not before it`;
          if (onDangling === undefined) throw new ArchiveError("Corrupt", `${shown} in the archive`);
          onDangling({ path, target });
          return undefined;
        }
        kinds.link(path, target, kind);
        if (kind === "pipe") return undefined;
        if (kind === "symlink") rules.addSymlink(path);
      } else {
        kinds.add(path, type);
        if (type === "symlink") rules.checkTarget(path, target);
        if (type === "file") countContent(size);
        const isRemembered = type === "directory" ? !isRoot(path) : type === "file" && (mode & 0o7000) !== 0;
        if (isRemembered) countRemembered(path);
      }
      return { type, path, mode, uid, gid, mtime, size, target };
    },
  };
}
