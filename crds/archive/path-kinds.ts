import { ArchiveError, quote } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import { createNumberColumn } from "./number-column.ts";
import { createPathIndex } from "./path-index.ts";

/** The kind of a path after everything is unpacked. */
export type PathKind = "file" | "directory" | "symlink" | "pipe";

/** The kinds by their number; 0 means not recorded. */
const KINDS: readonly (PathKind | undefined)[] = [undefined, "file", "directory", "symlink", "pipe"];

/** The kinds of an archive's paths. Each path has only one kind, and all paths above it are directories. */
export interface PathKinds {
  /**
   * Records the kind of an entry's path. A file or a directory may occur twice, as after `tar -r`; but not a file that
   * has another name by then, since some programs would write to both names, and others to one.
   *
   * @throws ArchiveError if the path already has another kind, or lies below a path that is not a directory
   */
  add(path: string, kind: PathKind): void;
  /**
   * Records a hard link to an existing file. The path of the link need not exist yet.
   *
   * @throws ArchiveError as `add` does
   */
  link(path: string, target: string, kind: PathKind): void;
  get(path: string): PathKind | undefined;
}

export function createPathKinds({ maxEntries }: ArchiveLimits): PathKinds {
  const paths = createPathIndex();
  const kinds = createNumberColumn(Uint8Array);
  /** By number: 1 for a file with several names. */
  const isLinked = createNumberColumn(Uint8Array);
  /** Folders whose content comes before their own entry. */
  let implied = 0;

  function get(path: string): PathKind | undefined {
    const number = paths.find(path);
    return number === -1 ? undefined : KINDS[kinds.get(number)];
  }

  function set(number: number, kind: PathKind): void {
    kinds.set(number, KINDS.indexOf(kind));
  }

  function addFolders(path: string): void {
    if (get(above(path)) === "directory") return;
    paths.addFolders(path, (number, end) => {
      const kind = KINDS[kinds.get(number)];
      if (kind === "directory") return;
      if (kind !== undefined) {
        throw new ArchiveError(
          "Hostile",
          `entry "${quote(path)}" lies below "${quote(path.slice(0, end))}", a ${kind}`,
        );
      }
      implied += 1;
      if (implied > maxEntries) {
        throw new ArchiveError("TooLarge", `its entries lie in more than ${maxEntries} folders`);
      }
      set(number, "directory");
    });
  }

  function addOnce(path: string, kind: PathKind): void {
    const known = get(path);
    if (known !== undefined) {
      throw new ArchiveError("Hostile", `it holds "${quote(path)}" twice, as a ${known} and then as a ${kind}`);
    }
    addFolders(path);
    set(paths.add(path), kind);
  }

  return {
    get,
    link(path, target, kind) {
      addOnce(path, kind);
      for (const name of [path, target]) isLinked.set(paths.find(name), 1);
    },
    add(path, kind) {
      const mayBeTwice = kind === "file" || kind === "directory";
      if (!mayBeTwice || get(path) !== kind) addOnce(path, kind);
      else if (isLinked.get(paths.find(path)) === 1) {
        throw new ArchiveError("Hostile", `it holds "${quote(path)}" twice, with a hard link to it before the second`);
      }
    },
  };
}

function above(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}
