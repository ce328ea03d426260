import { setImmediate } from "node:timers/promises";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { ArchiveTable, TableEntry } from "../../../crds/archive/archive-table.ts";
import { quote } from "../../../crds/quote.ts";
import { readArchiveTable } from "../../../crds/snapshots/read-table.ts";
import { archiveDigits } from "../../../crds/snapshots/snapshot-key.ts";
import { HttpError } from "../../http/http-error.ts";
import { type AskedVersion, againReplaced } from "./read-version.ts";
import { pathText } from "./saved-paths.ts";
import { askStore } from "./store.ts";

/** One of 200 000 entries takes about 340 MB of memory on Bun, and 120 MB on Node. */
const TABLES_AT_ONCE = 4;
/** The table of a large archive is read in steps of this many entries, so that it delays no other request. */
const STEP = 2000;

/** An entry of an archive. Its path is of bytes, one per character, as in {@link TableEntry}. */
export interface SavedEntry extends TableEntry {
  /** Of a hard link: the file that it is another name of. */
  readonly file?: TableEntry;
}

/** What a version of a snapshot holds. */
export interface SavedFiles {
  readonly members: ArchiveTable["members"];
  readonly entries: ReadonlyMap<string, SavedEntry>;
}

/**
 * Has what versions hold while `work` runs.
 *
 * @throws HttpError 409 if a version has no table, 503 if too many are being read; as {@link askStore} does
 */
export type WithSavedFiles = <V extends readonly AskedVersion[], T>(
  versions: readonly [...V],
  work: (files: { readonly [Index in keyof V]: SavedFiles }) => T,
) => Promise<T>;

/** Keeps a few tables in memory at once, since a large one takes much. */
export function limitSavedFiles(): WithSavedFiles {
  let reading = 0;
  return async <V extends readonly AskedVersion[], T>(
    versions: readonly [...V],
    work: (files: { readonly [Index in keyof V]: SavedFiles }) => T,
  ) => {
    if (reading + versions.length > TABLES_AT_ONCE) {
      throw new HttpError(503, `the files of ${reading} snapshots are being listed already; try again soon`, {
        headers: { "retry-after": "1" },
      });
    }
    reading += versions.length;
    try {
      const files: SavedFiles[] = [];
      for (const version of versions) files.push(await readFiles(version));
      return work(files as { readonly [Index in keyof V]: SavedFiles });
    } finally {
      reading -= versions.length;
    }
  };
}

async function readFiles({ key, version, services }: AskedVersion): Promise<SavedFiles> {
  const digits = archiveDigits(version.sha256);
  const { table: mark } = version;
  if (mark === undefined) {
    const why = "it was saved before such lists were written, or has more than 200000 entries";
    throw new HttpError(409, `version ${digits} has no list of its files: ${why}; download its archive`);
  }
  const archive = { ...version, ...key, table: mark };
  const table = await askStore(({ archives }, call) => readArchiveTable(archives, archive, call), services).catch(
    (error: unknown) => {
      if (!(error instanceof ArchiveError)) throw error;
      const message = `the list of the files of version ${digits} is damaged: try its archive`;
      throw new HttpError(500, message, { cause: error });
    },
  );
  if (table === undefined) throw againReplaced();
  return { members: table.members, entries: await entriesOf(table) };
}

/** As a program that unpacks the archive would have them: a path that is there twice is the last one. */
async function entriesOf(table: ArchiveTable): Promise<Map<string, SavedEntry>> {
  const entries = new Map<string, SavedEntry>();
  let read = 0;
  for (const entry of table.entries()) {
    const target = entry.type === "hardlink" ? entries.get(entry.target) : undefined;
    entries.set(entry.path, target === undefined ? entry : { ...entry, file: target.file ?? target });
    read += 1;
    if (read % STEP === 0) await setImmediate();
  }
  return entries;
}

/**
 * What is in a folder, or everything below it, by the bytes of the paths. A folder may have no entry of its own.
 *
 * @throws HttpError 404 if there is no such folder, 409 if it is something else
 */
export function listFolder(
  { entries }: SavedFiles,
  { folder, recursive }: { folder: string; recursive: boolean },
): { readonly path: string; readonly entry: SavedEntry | undefined }[] {
  const start = folder === "" ? "" : `${folder}/`;
  const paths = new Set<string>();
  for (const path of entries.keys()) {
    if (!path.startsWith(start)) continue;
    const end = recursive ? -1 : path.indexOf("/", start.length);
    paths.add(end === -1 ? path : path.slice(0, end));
  }
  if (paths.size === 0) refuseUnlessFolder(entries, folder);
  return [...paths].sort().map((path) => ({ path, entry: entries.get(path) }));
}

/** A folder's own entry and all below it. @throws HttpError as {@link listFolder} does */
export function entriesOfFolder({ entries }: SavedFiles, folder: string): SavedEntry[] {
  const found = [...entries.values()].filter(({ path }) => path === folder || path.startsWith(`${folder}/`));
  if (found.every(({ path }) => path === folder)) refuseUnlessFolder(entries, folder);
  return found;
}

function refuseUnlessFolder(entries: SavedFiles["entries"], folder: string): void {
  const entry = entries.get(folder);
  const { type } = entry?.file ?? entry ?? {};
  if (folder === "" || type === "directory") return;
  const shown = quote(pathText(folder));
  if (type === undefined) throw new HttpError(404, `there is no folder ${shown} in this version`);
  throw new HttpError(409, `${shown} is no folder: it is a ${type}`);
}

/** The entry that has the content of a file. @throws HttpError 404 if there is no such file, 409 if it is no file */
export function findFile({ entries }: SavedFiles, path: string): TableEntry {
  const entry = entries.get(path);
  const file = entry?.file ?? entry;
  if (file?.type === "file") return file;
  const shown = quote(pathText(path));
  if (file === undefined && !hasEntriesBelow(entries, path)) {
    throw new HttpError(404, `there is no file ${shown} in this version`);
  }
  const what = file?.type === "symlink" ? `a link to ${quote(pathText(file.target))}` : "a folder";
  throw new HttpError(409, `${shown} is no file: it is ${what}`);
}

function hasEntriesBelow(entries: SavedFiles["entries"], folder: string): boolean {
  for (const path of entries.keys()) if (path.startsWith(`${folder}/`)) return true;
  return false;
}
