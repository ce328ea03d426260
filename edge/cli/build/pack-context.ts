import { createReadStream, type Dirent, existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { BLOCK, type TarEntry, tarPadding, writeTarHeader } from "../../../crds/archive/tar-header.ts";
import { type IgnoreFile, type MatchedPatterns, readIgnoreFile } from "./ignore-file.ts";

/** The files of a folder that belong to the build context, in the order in which they are packed. */
export interface PackedContext {
  readonly files: number;
  readonly bytes: number;
  /** The paths of files that an archive of a context cannot contain, such as sockets. */
  readonly leftOut: readonly string[];
  /** A tar archive. It is the same for the same files, whenever and wherever they were written. */
  archive(): AsyncGenerator<Buffer>;
}

interface Found {
  readonly entry: TarEntry;
  readonly path: string;
}

/**
 * Lists the files of a folder, without those that its `.dockerignore` excludes. The build file and the ignore file are
 * always included, since the builder reads both.
 *
 * @param options.dockerfile path of the build file in the folder
 * @throws Error if there is no such file, or a file cannot be read
 */
export function findContext(folder: string, { dockerfile }: { dockerfile: string }): PackedContext {
  if (!existsSync(join(folder, dockerfile))) {
    throw new Error(
      `Cannot build ${folder}: it holds no ${dockerfile}, which the workload's spec.image.dockerfile names`,
    );
  }
  // An ignore file next to the build file has precedence:
  // https://docs.docker.com/build/concepts/context/#filename-and-location
  const [ignoreName] = [`${dockerfile}.dockerignore`, ".dockerignore"].filter((name) => existsSync(join(folder, name)));
  const ignore = readIgnoreFile(ignoreName === undefined ? "" : readFileSync(join(folder, ignoreName), "utf8"));
  const kept = new Set([dockerfile, ...(ignoreName === undefined ? [] : [ignoreName])].map(plain));
  const leftOut: string[] = [];
  const found = [...walk("", undefined)];

  function* walk(within: string, parent: MatchedPatterns | undefined): Generator<Found> {
    for (const item of readdirSync(join(folder, within), { withFileTypes: true }).sort(byName)) {
      const path = within === "" ? item.name : `${within}/${item.name}`;
      const { isLeftOut, matched } = ignore.match(path, parent);
      const isWanted = !isLeftOut || kept.has(path);
      if (item.isDirectory()) {
        if (isLeftOut && !mayHold(path, { ignore, kept })) continue;
        const below = [...walk(path, matched)];
        // An excluded folder is packed with its included files.
        if (isWanted || below.length > 0) yield { path, entry: entryOf(path, "directory") };
        yield* below;
      } else if (isWanted && item.isFile()) yield { path, entry: entryOf(path, "file") };
      else if (isWanted && item.isSymbolicLink()) yield { path, entry: entryOf(path, "symlink") };
      else if (isWanted) leftOut.push(path);
    }
  }

  function entryOf(path: string, type: TarEntry["type"]): TarEntry {
    const { mode, size } = lstatSync(join(folder, path));
    return {
      ...{ type, path: bytesOf(path), mode: mode & 0o7777, uid: 0, gid: 0, mtime: 0 },
      size: type === "file" ? size : 0,
      target: type === "symlink" ? readlinkSync(join(folder, path), "latin1") : "",
    };
  }

  return {
    files: found.filter(({ entry }) => entry.type !== "directory").length,
    bytes: found.reduce((sum, { entry }) => sum + entry.size, 0),
    leftOut,
    async *archive() {
      for (const { path, entry } of found) {
        yield writeTarHeader(entry);
        if (entry.size > 0) yield* contentOf(join(folder, path), entry.size);
        if (entry.size % BLOCK !== 0) yield tarPadding(entry.size);
      }
      yield Buffer.alloc(2 * BLOCK);
    },
  };
}

async function* contentOf(file: string, size: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of createReadStream(file)) {
    bytes += (chunk as Buffer).length;
    if (bytes > size) break;
    yield chunk as Buffer;
  }
  if (bytes !== size) throw new Error(`Cannot pack ${file}: it changed while it was packed; try again`);
}

function mayHold(path: string, { ignore, kept }: { ignore: IgnoreFile; kept: ReadonlySet<string> }): boolean {
  return ignore.hasExceptions || [...kept].some((name) => name.startsWith(`${path}/`));
}

function plain(path: string): string {
  return path
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");
}

/** Compares by bytes, independent of the machine's language. */
function byName(a: Dirent, b: Dirent): number {
  return Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));
}

/** Paths of an archive are bytes, one per character. */
function bytesOf(path: string): string {
  return Buffer.from(path, "utf8").toString("latin1");
}
