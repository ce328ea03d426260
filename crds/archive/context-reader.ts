import { ArchiveError, quote } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import { createEntryRules, type EntryReader, isFolderItself, withoutDot } from "./entry-reader.ts";

/**
 * Accepts the entries that are allowed in a build context.
 *
 * Any program may have packed it: `tar -C folder .` begins every path with `./`, which is removed, as is the folder
 * itself. A symlink cannot leave the context: no entry lies behind one, so it is resolved from a real folder; `..`
 * occurs only at the beginning of its target, and leads at most to the context's own folder; the rest is names of
 * folders or of symlinks of the same kind.
 */
export function createContextReader({ limits }: { limits: ArchiveLimits }): EntryReader {
  const rules = createEntryRules(limits);

  function checkInside(path: string, target: string): void {
    const shown = `the symlink "${quote(path)}"`;
    if (target.startsWith("/")) {
      throw new ArchiveError("Hostile", `${shown} points at the absolute path "${quote(target)}"`);
    }
    const parts = target.split("/").filter((part) => part !== "" && part !== ".");
    const named = parts.findIndex((part) => part !== "..");
    const upward = named === -1 ? parts.length : named;
    if (upward > path.split("/").length - 1) {
      throw new ArchiveError("Hostile", `${shown} leaves the context: it points at "${quote(target)}"`);
    }
    if (parts.includes("..", upward)) {
      throw new ArchiveError("Hostile", `${shown} goes up behind a name: it points at "${quote(target)}"`);
    }
  }

  return {
    kindOf: () => undefined,
    read(header, given) {
      rules.count();
      const named = given.path ?? header.name;
      if (isFolderItself(header, named)) return undefined;
      const path = withoutDot(header.type === "5" ? named.replace(/\/$/, "") : named);
      rules.checkPath(path, "entry");
      const type = rules.typeOf(header, path);
      const { uid, gid, mtime, size } = header;
      // The program that unpacks it does not run as root, and must be able to read it.
      const mode = header.mode | (type === "directory" ? 0o700 : type === "file" ? 0o400 : 0);
      const read = { type, path, mode, uid, gid, mtime, size };
      const target = given.target ?? header.linkName;
      switch (type) {
        case "symlink":
          rules.checkTarget(path, target);
          checkInside(path, target);
          return { ...read, target };
        case "hardlink": {
          const linked = withoutDot(target);
          rules.checkPath(linked, `the target of "${quote(path)}",`);
          // Another name of a symlink leads elsewhere from another folder.
          if (rules.isSymlink(linked)) {
            const shown = `the hard link "${quote(path)}"`;
            throw new ArchiveError("Hostile", `${shown} points at the symlink "${quote(linked)}"`);
          }
          return { ...read, target: linked };
        }
        default:
          return { ...read, target: "" };
      }
    },
  };
}
