import type { LooseCalls, LooseOptions } from "./call.ts";
import type { InstanceFile, RawBody } from "./operations.ts";
import { type Place, placeCall } from "./place.ts";
import { eventsOf } from "./read-stream.ts";

/** A path from the root, with or without the slash at its start, or an entry of a list. */
export type FilePath = string | { readonly path: string; readonly encodedPath?: string };

/** A change in a folder that is watched. docs/how-to/work-in-an-instance.md says when each comes. */
export type WatchEvent =
  | { readonly type: "watching" | "overflow" }
  | { readonly type: "ended"; readonly message: string }
  | {
      readonly type: "created" | "changed" | "removed" | "moved";
      readonly path: string;
      readonly encodedPath?: string;
      /** Of what was moved: its path before. */
      readonly from?: string;
      readonly encodedFrom?: string;
      /** Absent if it is no longer there. */
      readonly entry?: InstanceFile;
    };

interface Abort {
  readonly signal?: AbortSignal | undefined;
}

export interface WriteOptions extends Abort {
  /** Octal digits, such as `0755`. @default those of the file that it replaces, or 0644 */
  readonly mode?: string | undefined;
  /** Whether to fail with 409 if there is a file. @default false */
  readonly isNew?: boolean | undefined;
}

/** The files of instances, as the workload's user reaches them. All throw ApiError, or the signal's reason. */
export interface Files {
  /**
   * Writes a file, which is there as a whole or not at all. A stream is sent as it is read; browsers cannot send one,
   * so give them a `Blob`.
   */
  write(place: Place, path: FilePath, content: RawBody, options?: WriteOptions): Promise<InstanceFile>;
  /**
   * Opens a file: `await (await client.files.read(claim, "work/a.txt")).text()`, or its `body` as a stream.
   *
   * @param options.range a part of it, such as `bytes=0-99`
   */
  read(place: Place, path: FilePath, options?: Abort & { range?: string | undefined }): Promise<Response>;
  /** All of a file as text. */
  readText(place: Place, path: FilePath, options?: Abort): Promise<string>;
  /** What is in a folder, by name. @param options.depth how many folders deep, at most 64 @default 1 */
  list(place: Place, folder: FilePath, options?: Abort & { depth?: number | undefined }): Promise<InstanceFile[]>;
  /**
   * A part of such a list: at most `limit` entries (500) after the path `after`. `next` is the `after` of the next part,
   * absent in the last one.
   */
  page(
    place: Place,
    folder: FilePath,
    options?: Abort & { depth?: number | undefined; limit?: number | undefined; after?: string | undefined },
  ): Promise<{ entries: InstanceFile[]; next?: string }>;
  /** One entry. @throws ApiError with the status 404 if nothing is there */
  stat(place: Place, path: FilePath, options?: Abort): Promise<InstanceFile>;
  /** Makes a folder and those above it. */
  mkdir(place: Place, path: FilePath, options?: Abort & { mode?: string | undefined }): Promise<InstanceFile>;
  /** @param options.replace whether it may replace a file @default false */
  move(place: Place, from: FilePath, to: FilePath, options?: Abort & { replace?: boolean }): Promise<InstanceFile>;
  /** Sets the permissions, in octal digits. */
  chmod(place: Place, path: FilePath, mode: string, options?: Abort): Promise<InstanceFile>;
  /** @param options.recursive whether a folder goes with what is in it @default false */
  remove(place: Place, path: FilePath, options?: Abort & { recursive?: boolean }): Promise<void>;
  /** What changes in a folder, at the reader's pace, until the signal, or until the loop is left. */
  watch(place: Place, folder: FilePath, options?: Abort & { depth?: number }): AsyncGenerator<WatchEvent, void>;
  /** Opens a folder as a tar.gz, which is packed while it is read. A body that breaks off is not complete. */
  download(place: Place, folder: FilePath, options?: Abort): Promise<Response>;
  /** Unpacks a tar or tar.gz into a folder; nothing changes unless all of it is right. */
  upload(place: Place, folder: FilePath, archive: RawBody, options?: Abort): Promise<InstanceFile>;
}

export function createFiles(calls: LooseCalls): Files {
  /** A call about one path. */
  function one(method: string, place: Place, path: FilePath, options: LooseOptions = {}): [string, LooseOptions] {
    const { base, path: parameters, query } = placeCall(place);
    const request = { ...options, path: { ...parameters, path: encoded(path) }, query: { ...query, ...options.query } };
    return [`${method} ${base}/files/{path}`, request];
  }
  const entry = async (...request: [string, LooseOptions]) => (await calls.call(...request)) as InstanceFile;

  return {
    write: (place, path, content, { mode, isNew = false, signal } = {}) =>
      entry(
        ...one("PUT", place, path, {
          ...{ query: { mode }, body: content, signal },
          ...(isNew && { headers: { "if-none-match": "*" } }),
        }),
      ),
    read: (place, path, { range, signal } = {}) =>
      calls.send(...one("GET", place, path, { headers: { range }, signal })),
    async readText(place, path, { signal } = {}) {
      return await (await calls.send(...one("GET", place, path, { signal }))).text();
    },
    async list(place, folder, { depth, signal } = {}) {
      const { base, path, query } = placeCall(place);
      const found: InstanceFile[] = [];
      const request = { path, query: { ...query, folder: folderOf(folder), depth, limit: 1000 }, signal };
      for await (const file of calls.all(`GET ${base}/files`, request)) found.push(file as InstanceFile);
      return found;
    },
    async page(place, folder, { depth, limit, after, signal } = {}) {
      const { base, path, query } = placeCall(place);
      const request = { path, query: { ...query, folder: folderOf(folder), depth, limit, after }, signal };
      const response = await calls.send(`GET ${base}/files`, request);
      const next = response.headers.get("x-tenancy-next");
      return { entries: (await response.json()) as InstanceFile[], ...(next !== null && { next }) };
    },
    async stat(place, file, { signal } = {}) {
      const { base, path, query } = placeCall(place);
      const request = { path, query: { ...query, folder: folderOf(file), depth: 0 }, signal };
      const [found] = (await calls.call(`GET ${base}/files`, request)) as InstanceFile[];
      return found as InstanceFile;
    },
    mkdir: (place, path, { mode, signal } = {}) =>
      entry(...one("POST", place, path, { query: { mkdir: true, mode }, signal })),
    move: (place, from, to, { replace, signal } = {}) =>
      entry(...one("POST", place, from, { query: { move: folderOf(to), replace }, signal })),
    chmod: (place, path, mode, { signal } = {}) => entry(...one("POST", place, path, { query: { mode }, signal })),
    async remove(place, path, { recursive, signal } = {}) {
      await calls.call(...one("DELETE", place, path, { query: { recursive }, signal }));
    },
    async *watch(place, folder, { depth, signal } = {}) {
      const { base, path, query } = placeCall(place);
      const accept = "text/event-stream";
      const request = { path, query: { ...query, folder: folderOf(folder), depth, watch: true }, accept, signal };
      yield* eventsOf<WatchEvent>(await calls.send(`GET ${base}/files`, request), { signal });
    },
    download: (place, folder, { signal } = {}) =>
      calls.send(...one("GET", place, folder, { query: { archive: "tar.gz" }, signal })),
    upload: (place, folder, archive, { signal } = {}) =>
      entry(
        ...one("PUT", place, folder, {
          query: { unpack: true },
          body: archive,
          contentType: "application/gzip",
          signal,
        }),
      ),
  };
}

/** A path without the slash at its start, in which a percent sign stands before two digits. */
function encoded(path: FilePath): string {
  if (typeof path !== "string" && path.encodedPath !== undefined) return path.encodedPath;
  const text = typeof path === "string" ? path : path.path;
  return text
    .replace(/^\/+|\/+$/g, "")
    .split("/")
    .map(encodeURIComponent)
    .join("/");
}

/** A path as it is in a query; undefined for the root. */
function folderOf(path: FilePath): string | undefined {
  return encoded(path) || undefined;
}
