import { createHash } from "node:crypto";

/** The folders of a pod by their paths and inodes, 8 bytes each. */
export interface Folders {
  readonly count: number;
  /** Whether this folder was there under this path. */
  has(folder: { readonly path: string; readonly inode: string }): boolean;
}

/**
 * For a shell whose `$b` is busybox: writes the overlay directories and the folders in them for `readFolders`. The
 * names are encoded, since a line break in one of them could make another answer of it. No path has two slashes.
 */
export const SAY_FOLDERS = `echo -n "answer of folders "
"$b" find "$@" -type d -exec "$b" stat -c '%d:%i %n//' {} + | "$b" base64 -w 0
echo`;

const LIST = /^answer of folders ([A-Za-z0-9+/=]+)$/m;

/** The folders in the output of a script; undefined if they are not in it. */
export function readFolders(output: string): Folders | undefined {
  const [, list] = LIST.exec(output) ?? [];
  if (list === undefined) return undefined;
  const known: bigint[] = [];
  for (const line of Buffer.from(list, "base64").toString("latin1").split("//\n")) {
    if (line === "") continue;
    const [, inode, path] = /^(\d+:\d+) (?:\.\/)?(.+)$/s.exec(line) ?? [];
    if (inode === undefined || path === undefined) return undefined;
    known.push(folderNumber(path, inode));
  }
  return foldersOf(known);
}

/** @param numbers of folders, as `folderNumber` gives them */
export function foldersOf(numbers: Iterable<bigint>): Folders {
  const sorted = new BigUint64Array(numbers).sort();
  return { count: sorted.length, has: ({ path, inode }) => isIn(sorted, folderNumber(path, inode)) };
}

/** Stands for a path and what is known of the folder there. */
export function folderNumber(path: string, inode: string): bigint {
  return createHash("sha256").update(`${inode} ${path}`, "latin1").digest().readBigUInt64LE();
}

function isIn(sorted: BigUint64Array, wanted: bigint): boolean {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((sorted[middle] as bigint) < wanted) from = middle + 1;
    else to = middle;
  }
  return sorted[from] === wanted;
}
