import { quote } from "../../../crds/archive/archive-error.ts";
import { createNumberColumn } from "../../../crds/archive/number-column.ts";
import { createPathIndex } from "../../../crds/archive/path-index.ts";
import type { PathKind } from "../../../crds/archive/path-kinds.ts";
import type { TarEntry } from "../../../crds/archive/tar-header.ts";
import type { ListedFile, ListReader } from "./file-list.ts";
import { DIRECTORY, FILE, SYMLINK, TYPE } from "./unchanged-files.ts";

const KINDS: Readonly<Record<number, PathKind>> = { [FILE]: "file", [DIRECTORY]: "directory", [SYMLINK]: "symlink" };
const MOST_SHOWN = 3;
const MOST_NAMES = 1000;

/**
 * Compares an archive with the lists of the files before and after the read
 * (docs/decisions/snapshots.md#a-save-is-held-against-lists). It takes about 60 bytes per file.
 */
export interface SavedFiles {
  /** Begins a try. @param kindOf the kind of a path in the archive of this try so far */
  begin(kindOf: (path: string) => PathKind | undefined): void;
  /** Reads the list before the archive. */
  readonly before: Pick<ListReader, "file">;
  /** @param isKept whether it is known to be the file of the list before */
  archived(entry: TarEntry, isKept?: boolean): void;
  /** Notes a hard link to a file that the archive lacks. */
  dangling(link: { path: string; target: string }): void;
  /** Whether the archive has all of the list before. It is then good if the list after is the same. */
  isWhole(): boolean;
  /** Identifies the paths, inodes and times of directories of the list before. */
  shapeBefore(): string;
  /** A reader for the next list after the archive. */
  after(): ListAfter;
}

export interface ListAfter extends Pick<ListReader, "file"> {
  /** Call it once the list is complete. */
  judge(): { readonly judgement: Judgement; readonly shape: string };
}

export interface Judgement {
  /** Whether the archive has all present files, unchanged. */
  readonly isWhole: boolean;
  /** Files that the archive may lack although they existed before the read and exist now. */
  readonly problem: string | undefined;
}

export function createSavedFiles(): SavedFiles {
  const paths = createPathIndex();
  const inodes = createPathIndex();
  // By path: its inode in the list before, plus one; its content in that list and in the archive; the tries of both.
  const inodeBefore = createNumberColumn(Uint32Array);
  const contentBefore = createNumberColumn(Uint32Array);
  const contentArchived = createNumberColumn(Uint32Array);
  const listedIn = createNumberColumn(Uint32Array);
  const archivedIn = createNumberColumn(Uint32Array);
  /** By inode. */
  const wasThere = createNumberColumn(Uint32Array);
  const links = { paths: createNumberColumn(Uint32Array), targets: createNumberColumn(Uint32Array), count: 0 };
  let kindOf: (path: string) => PathKind | undefined = () => undefined;
  let attempt = 0;
  let shape = createShape();
  let listed = 0;
  let matched = 0;
  let areLinksSure = true;
  let danglingLink: string | undefined;
  /** Files that only a list after has shown: in the next try they belong to the list before. */
  let late: [path: number, inode: number][] = [];

  function know(path: number, inode: number): void {
    inodeBefore.set(path, inode + 1);
    wasThere.set(inode, 1);
  }

  return {
    begin(kinds) {
      for (const [path, inode] of late) know(path, inode);
      late = [];
      kindOf = kinds;
      attempt += 1;
      shape = createShape();
      [listed, matched, links.count] = [0, 0, 0];
      areLinksSure = true;
      danglingLink = undefined;
    },
    before: {
      file(file) {
        if (KINDS[file.mode & TYPE] === undefined) return;
        const path = paths.add(file.path);
        const inode = inodes.add(file.inode);
        know(path, inode);
        contentBefore.set(path, contentOf(KINDS[file.mode & TYPE], file));
        listedIn.set(path, attempt);
        listed += 1;
        shape.add({ path, inode, file });
      },
    },
    shapeBefore: () => shape.value(),
    archived({ path: name, type, target, mtime, size }, isKept = false) {
      const path = paths.add(name);
      if (type === "hardlink") {
        const linked = paths.add(target);
        links.paths.set(links.count, path);
        links.targets.set(links.count, linked);
        links.count += 1;
        areLinksSure &&= inodeBefore.get(path) !== 0 && inodeBefore.get(path) === inodeBefore.get(linked);
      }
      contentArchived.set(path, isKept || type === "hardlink" ? 0 : contentOf(type, { mtime, size }));
      if (archivedIn.get(path) !== attempt && listedIn.get(path) === attempt) matched += 1;
      archivedIn.set(path, attempt);
    },
    dangling({ path, target }) {
      danglingLink ??= `the hard link "${quote(path)}" points at "${quote(target)}", which is not before it in the archive`;
    },
    isWhole: () => matched === listed && areLinksSure && danglingLink === undefined,
    after() {
      const inodeNow = createNumberColumn(Uint32Array);
      const shapeNow = createShape();
      /** By inode: whether the archive certainly has it. */
      const isSure = createNumberColumn(Uint32Array);
      const doubts: { inode: number | undefined; name: string | undefined }[] = [];
      let leftOut = 0;

      function doubt(inode: number | undefined, file: ListedFile): void {
        doubts.push({ inode, name: doubts.length < MOST_NAMES ? file.path : undefined });
      }

      function isAnotherContent(path: number, now: number): boolean {
        // A file that changed during the read is saved as it was read.
        return contentBefore.get(path) === now && contentArchived.get(path) !== 0 && contentArchived.get(path) !== now;
      }

      function brokenLink(): string | undefined {
        for (let index = 0; index < links.count; index += 1) {
          const inode = inodeNow.get(links.paths.get(index));
          if (inode !== 0 && inode !== inodeNow.get(links.targets.get(index))) {
            return "a file took the place of one with several names";
          }
        }
        return undefined;
      }

      return {
        file(file) {
          const kind = KINDS[file.mode & TYPE];
          if (kind === undefined) return;
          const path = paths.add(file.path);
          const inode = inodes.add(file.inode);
          inodeNow.set(path, inode + 1);
          shapeNow.add({ path, inode, file });
          const isArchived = kindOf(file.path) === kind;
          if (!isArchived) {
            leftOut += 1;
            late.push([path, inode]);
          }
          const before = inodeBefore.get(path);
          const isSame = before === inode + 1 && !isAnotherContent(path, contentOf(kind, file));
          const isGood = isArchived && (before === 0 || isSame);
          if (isGood) isSure.set(inode, 1);
          // The archive needs each name that existed all the time, and each file that did, by any of its names.
          if (before !== 0 && !isArchived) doubt(undefined, file);
          else if (!isGood && wasThere.get(inode) === 1) doubt(inode, file);
        },
        judge() {
          const lost = doubts.filter(({ inode }) => inode === undefined || isSure.get(inode) === 0);
          const names = lost.slice(0, MOST_SHOWN).flatMap(({ name }) => (name === undefined ? [] : `"${quote(name)}"`));
          const more = lost.length > names.length ? ` and ${lost.length - names.length} more` : "";
          const missing = names.length > 0 ? `the archive may lack ${names.join(", ")}${more}` : undefined;
          const problem = danglingLink ?? brokenLink() ?? missing;
          const judgement = { isWhole: leftOut === 0 && problem === undefined, problem };
          return { judgement, shape: shapeNow.value() };
        },
      };
    },
  };
}

/** A hash of a file's time and size, which stands for its content; 0 for a directory. */
function contentOf(kind: PathKind | undefined, { mtime, size }: { mtime: number; size: number }): number {
  if (kind === "directory") return 0;
  return (Math.imul(Math.max(mtime, 0), 0x85ebca6b) ^ (kind === "file" ? Math.imul(size, 0xc2b2ae35) : 0)) >>> 0;
}

/** A sum over the entries of a list. It ignores what a program changes inside files. */
function createShape(): { add(entry: { path: number; inode: number; file: ListedFile }): void; value(): string } {
  let [low, high, count] = [0, 0, 0];
  return {
    add({ path, inode, file: { mode, ctime } }) {
      let bits = Math.imul(path + 1, 0x85ebca6b) ^ Math.imul(inode + 1, 0xc2b2ae35);
      if ((mode & TYPE) === DIRECTORY) {
        for (let at = 0; at < ctime.length; at += 1) bits = Math.imul(bits ^ ctime.charCodeAt(at), 0x01000193);
      }
      bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b);
      low = (low + bits) | 0;
      high = (high + Math.imul(bits ^ (bits >>> 13), 0x9e3779b1)) | 0;
      count += 1;
    },
    value: () => `${low} ${high} ${count}`,
  };
}
