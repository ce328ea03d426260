import { ArchiveError } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import type { TarEntry, TarEntryType, TarHeader } from "./tar-header.ts";

export interface EntryReader {
  /**
   * Judges what a header announces; undefined for one that is left out.
   *
   * @param longName what an entry of GNU's format before it gave as path or target, where its own fields were too short
   * @throws ArchiveError for everything that a save of these directories never makes
   */
  read(header: TarHeader, longName: { path?: string | undefined; target?: string | undefined }): TarEntry | undefined;
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

/**
 * Tells the entries that may be in an archive of overlay directories from those that may not.
 *
 * A symlink may point anywhere: whatever it says is looked up inside the pod. Nothing may be written through one,
 * though, so no entry and no hard link's target may lie below a symlink.
 *
 * @param options.leaveOutPipes whether a named pipe is left out, with the links to it, instead of refused
 */
export function createEntryReader(options: {
  roots: readonly string[];
  limits: ArchiveLimits;
  leaveOutPipes: boolean;
}): EntryReader {
  const { roots, limits } = options;
  const symlinks = new Set<string>();
  const leftOut = new Set<string>();
  let entries = 0;
  let rememberedBytes = 0;

  function checkPath(path: string, what: string): void {
    const shown = `${what} "${quote(path)}"`;
    if (path.length > limits.maxPathBytes) {
      throw new ArchiveError("TooLarge", `the path of ${shown} is longer than ${limits.maxPathBytes} bytes`);
    }
    if (path.startsWith("/")) throw new ArchiveError("Hostile", `${shown} has an absolute path`);
    const parts = path.split("/");
    for (const part of parts) {
      if (part === "" || part === "." || part === "..") throw new ArchiveError("Hostile", `${shown} has no plain path`);
      if (part.length > maxPartBytes) throw new ArchiveError("Hostile", `${shown} has a name that is too long`);
    }
    if (!roots.some((root) => path === root || path.startsWith(`${root}/`))) {
      throw new ArchiveError("Hostile", `${shown} is outside the overlay directories`);
    }
    for (let count = 1; count < parts.length; count += 1) {
      if (symlinks.has(parts.slice(0, count).join("/"))) {
        throw new ArchiveError("Hostile", `${shown} lies behind a symlink`);
      }
    }
  }

  function remember(set: Set<string>, path: string): void {
    rememberedBytes += path.length + 64;
    if (rememberedBytes > limits.maxRememberedBytes) {
      throw new ArchiveError("TooLarge", `the names of its links take more than ${limits.maxRememberedBytes} bytes`);
    }
    set.add(path);
  }

  return {
    read(header, longName) {
      entries += 1;
      if (entries > limits.maxEntries) {
        throw new ArchiveError("TooLarge", `it holds more than ${limits.maxEntries} entries`);
      }
      const named = longName.path ?? header.name;
      const path = header.type === "5" ? named.replace(/\/$/, "") : named;
      checkPath(path, "entry");
      if (header.type === "6" && options.leaveOutPipes) {
        remember(leftOut, path);
        return undefined;
      }
      const type = types[header.type];
      if (type === undefined) {
        const kind = kinds[header.type] ?? `of the unknown type "${quote(header.type)}"`;
        throw new ArchiveError("Hostile", `entry "${quote(path)}" is ${kind}`);
      }
      if (type !== "directory" && roots.includes(path)) {
        throw new ArchiveError("Hostile", `entry "${quote(path)}" takes the place of an overlay directory`);
      }
      if (type !== "file" && header.size !== 0) {
        throw new ArchiveError("Hostile", `entry "${quote(path)}" is a ${type} with a content`);
      }
      const target = type === "symlink" || type === "hardlink" ? (longName.target ?? header.linkName) : "";
      if (type === "symlink") {
        if (target === "" || target.length > limits.maxPathBytes) {
          throw new ArchiveError("Hostile", `the symlink "${quote(path)}" has no target, or too long a one`);
        }
        remember(symlinks, path);
      }
      if (type === "hardlink") {
        checkPath(target, `the target of "${quote(path)}",`);
        if (leftOut.has(target)) return undefined;
      }
      const { mode, uid, gid, mtime, size } = header;
      return { type, path, mode, uid, gid, mtime, size, target };
    },
  };
}

function quote(path: string): string {
  const shown = Buffer.from(path.slice(0, 200), "latin1").toString("utf8");
  return JSON.stringify(shown).slice(1, -1);
}
