import { mkdirSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { create, extract, type ReadEntry } from "tar";

/** A folder as tar.gz, packed while it is read. Links stay links. */
export function packFolder(folder: string): ReadableStream<Uint8Array> {
  const packed = create({ gzip: true, cwd: folder, portable: true, strict: true }, ["."]);
  return Readable.toWeb(Readable.from(packed)) as ReadableStream<Uint8Array>;
}

/**
 * Unpacks an archive of a tenant into a folder, which is made if it is missing. Nothing is written outside of the
 * folder: links that lead out of it are left out, and so is what is no file, folder or symbolic link. Files get their
 * permissions without setuid, setgid and the sticky bit, and belong to this user.
 *
 * @returns the paths that were left out
 * @throws Error if the archive is not whole; then a part of it may be there
 */
export async function unpackFolder(pieces: AsyncIterable<Uint8Array>, folder: string): Promise<string[]> {
  mkdirSync(folder, { recursive: true });
  const leftOut: string[] = [];
  const unpacking = extract({
    ...{ cwd: folder, strict: true, preserveOwner: false, preservePaths: false },
    filter(path, entry) {
      const { type, linkpath } = entry as ReadEntry;
      const isTaken =
        type === "Directory" || type === "File" || (type === "SymbolicLink" && staysInside(path, linkpath));
      if (!isTaken) leftOut.push(path);
      return isTaken;
    },
    onReadEntry(entry: ReadEntry) {
      entry.mode = (entry.mode ?? 0o644) & 0o777;
    },
  });
  await pipeline(Readable.from(pieces), unpacking as unknown as NodeJS.WritableStream);
  return leftOut;
}

/**
 * Whether a link leads to something in the folder. Its own folders are no links, since nothing is unpacked through one,
 * so `..` is exact at its beginning; after a name, which may be a link, it is not.
 */
export function staysInside(path: string, target: string | undefined): boolean {
  if (target === undefined || target.startsWith("/") || target.includes("\\")) return false;
  const plain = (text: string) => text.split("/").filter((part) => part !== "" && part !== ".");
  const depth = plain(path).length - 1;
  const parts = plain(target);
  const ups = parts.findIndex((part) => part !== "..");
  const leading = ups === -1 ? parts.length : ups;
  return leading <= depth && !parts.slice(leading).includes("..");
}
