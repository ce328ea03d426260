import { useState } from "preact/hooks";
import { send } from "../api/call.ts";
import { type Loaded, useLoad } from "../api/load.ts";
import { type FilePath, type InstanceFile, urlOf } from "./file-path.ts";

/** What is in a folder, as far as it is read. */
export interface FolderPages {
  readonly files: readonly InstanceFile[];
  readonly hasMore: boolean;
}

const PAUSE_MS = 100;

/** Path of an instance's files, below `/api/v1`. */
export function filesPath(instance: string): string {
  return `/instances/${encodeURIComponent(instance)}/files`;
}

/** Path of a file or folder in it, below `/api/v1`. */
export function filePath(instance: string, of: FilePath): string {
  return `${filesPath(instance)}/${urlOf(of)}`;
}

/** Reads the first page of a folder, and one more each time that `more` is called. */
export function useFolder(instance: string, folder: FilePath): Loaded<FolderPages> & { more(): void } {
  const [wanted, setWanted] = useState({ folder, pages: 1 });
  const pages = wanted.folder === folder ? wanted.pages : 1;
  const query = new URLSearchParams(folder === "" ? {} : { folder });
  const path = `${filesPath(instance)}?${query}`;
  const list = useLoad(path, (signal) => readPages(path, { pages, signal }), pages, PAUSE_MS);
  return { ...list, more: () => setWanted({ folder, pages: pages + 1 }) };
}

async function readPages(
  path: string,
  { pages, signal }: { pages: number; signal: AbortSignal },
): Promise<FolderPages> {
  const files: InstanceFile[] = [];
  let next: string | undefined;
  for (let page = 0; page < pages; page += 1) {
    const after = next === undefined ? "" : `&after=${encodeURIComponent(next)}`;
    const response = await send("GET", `${path}${after}`, { signal });
    files.push(...((await response.json()) as InstanceFile[]));
    next = response.headers.get("x-tenancy-next") ?? undefined;
    if (next === undefined) break;
  }
  return { files, hasMore: next !== undefined };
}
