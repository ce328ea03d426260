import { ArchiveError, quote } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import { createNumberColumn } from "./number-column.ts";
import { createPathIndex } from "./path-index.ts";

/** What a path is when everything is unpacked. */
export type PathKind = "file" | "directory" | "symlink" | "pipe";

/** By number; 0 of what is not noted. */
const KINDS: readonly (PathKind | undefined)[] = [undefined, "file", "directory", "symlink", "pipe"];

/** What the paths of an archive are: each one thing, and below directories alone. */
export interface PathKinds {
  /**
   * Notes what an entry makes of its path. A file and a directory may come twice, as from `tar -r`, but not a file that
   * has another name by then: some programs write to both names, and others to one.
   *
   * @throws ArchiveError where the path is another thing already, or lies below what is no directory
   */
  add(path: string, kind: PathKind): void;
  /** Notes a hard link to what is there, whose path may not be there yet. @throws ArchiveError as `add` does */
  link(path: string, target: string, kind: PathKind): void;
  get(path: string): PathKind | undefined;
}

export function createPathKinds({ maxEntries }: ArchiveLimits): PathKinds {
  const paths = createPathIndex();
  const kinds = createNumberColumn(Uint8Array);
  /** By number: 1 of what has several names. */
  const isLinked = createNumberColumn(Uint8Array);
  /** Folders that have no entry before what is in them. */
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
