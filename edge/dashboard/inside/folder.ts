import { useEffect, useRef, useState } from "preact/hooks";
import { CallError, logins, send } from "../api/call.ts";
import { timers } from "../api/kinds.ts";
import { type Loaded, useLoad } from "../api/load.ts";
import { type FilePath, type InstanceFile, urlOf } from "./file-path.ts";
import { type FolderWatch, followFolder, isPassing, type WatchEvent, type WatchState } from "./folder-watch.ts";
import { linesIn } from "./lines.ts";

/** What is in a folder, as far as it is read. */
export interface FolderPages {
  readonly files: readonly InstanceFile[];
  readonly hasMore: boolean;
}

interface FolderList extends Loaded<FolderPages> {
  readonly watch: WatchState;
  /** Reads the list again, and watches again after a refusal. */
  refresh(): void;
  /** Reads one page more. */
  more(): void;
}

const PAUSE_MS = 100;
/** Changes that follow each other are read together: one request a second. */
const CHANGES_MS = 1000;
const FAILED_MS = 10_000;

/** Path of an instance's files, below `/api/v1`. */
export function filesPath(instance: string): string {
  return `/instances/${encodeURIComponent(instance)}/files`;
}

/** Path of a file or folder in it, below `/api/v1`. */
export function filePath(instance: string, of: FilePath): string {
  return `${filesPath(instance)}/${urlOf(of)}`;
}

/**
 * Reads the first page of a folder, and one more each time that `more` is called. While the page can be seen, it
 * watches the folder and reads it again when something has changed.
 */
export function useFolder(instance: string, folder: FilePath): FolderList {
  const [wanted, setWanted] = useState({ folder, pages: 1 });
  const pages = wanted.folder === folder ? wanted.pages : 1;
  const query = new URLSearchParams(folder === "" ? {} : { folder });
  const path = `${filesPath(instance)}?${query}`;
  const list = useLoad(path, (signal) => readPages(path, { pages, signal }), pages, PAUSE_MS);
  const { state, retry } = useWatch(path, () => list.againAfter(CHANGES_MS * pages));

  const { error } = list;
  const isFailed =
    error !== undefined && state.is === "live" && isPassing(error instanceof CallError ? error.status : 0);
  useEffect(() => {
    // The change that it was read for may have been the last one.
    if (isFailed) list.againAfter(FAILED_MS);
  }, [isFailed, error]);

  return {
    ...list,
    watch: state,
    refresh() {
      list.again();
      retry();
    },
    more: () => setWanted({ folder, pages: pages + 1 }),
  };
}

/** Watches while the page can be seen: an open watch counts as use of the instance. */
function useWatch(path: string, onChange: () => void): { state: WatchState; retry(): void } {
  const [shown, setShown] = useState<{ path: string; state: WatchState }>();
  const watch = useRef<FolderWatch | undefined>(undefined);
  const latest = useRef(onChange);
  latest.current = onChange;
  const retry = (): void => watch.current?.retry();
  useEffect(() => {
    function follow(): void {
      if (document.hidden) {
        close();
        setShown(undefined);
      } else {
        watch.current ??= followFolder({
          open: (signal) => watchEvents(`${path}&watch=true`, { signal }),
          onChange: () => latest.current(),
          onState: (state) => setShown({ path, state }),
          clock: timers,
        });
      }
    }
    function close(): void {
      watch.current?.close();
      watch.current = undefined;
    }
    follow();
    document.addEventListener("visibilitychange", follow);
    addEventListener("online", retry);
    const endLogins = logins.subscribe(retry);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      removeEventListener("online", retry);
      endLogins();
      close();
    };
  }, [path]);
  return { state: shown?.path === path ? shown.state : { is: "connecting" }, retry };
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

/** The events of a watch, as server-sent events. */
async function* watchEvents(
  path: string,
  { signal }: { signal: AbortSignal },
): AsyncGenerator<readonly WatchEvent[], void> {
  const response = await send("GET", path, { signal, accept: "text/event-stream" });
  for await (const lines of linesIn(response)) {
    const data = lines.filter((line) => line.startsWith("data: "));
    yield data.map((line) => JSON.parse(line.slice("data: ".length)) as WatchEvent);
  }
}
