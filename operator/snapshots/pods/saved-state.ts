import type { ListReader } from "./file-list.ts";
import { folderNumber, foldersOf } from "./folders.ts";
import { type PodTime, settledBefore } from "./pod-time.ts";
import { type ArchivedFiles, DIRECTORY, TYPE } from "./unchanged-files.ts";

/** An archive of more folders has too many entries to be compared with a list. */
const MOST_FOLDERS = 50_000;

/** Reads the lists of a save, so that the next save of the pod reads only what has changed since. */
export interface SavedState {
  /** Reads the list before the archive. */
  readonly before: Pick<ListReader, "time" | "file">;
  /** Reads the first list after the archive; not used if that is the same as the one before. */
  readonly after: Pick<ListReader, "file" | "end">;
  /** Call it once the archive is good. Undefined if the files are too many. */
  files(): ArchivedFiles | undefined;
}

/**
 * A folder counts only if it had the same inode and ctime before and after the read: a folder that was moved away and
 * back in between may have been read with the files of another one.
 */
export function createSavedState(): SavedState {
  /** The folders of the list before: what has to be the same after the read, and what is kept. */
  const listed = new Map<bigint, bigint>();
  const confirmed = new Set<bigint>();
  let at: PodTime | undefined;
  let hasAfter = false;

  return {
    before: {
      time(time) {
        at = time;
      },
      file({ mode, inode, ctime, path }) {
        // A change in the same tick of the clock does not show in the list after.
        if ((mode & TYPE) !== DIRECTORY || at === undefined || ctime >= at.now || listed.size > MOST_FOLDERS) return;
        listed.set(folderNumber(path, `${inode} ${ctime}`), folderNumber(path, inode));
      },
    },
    after: {
      file({ mode, inode, ctime, path }) {
        if ((mode & TYPE) !== DIRECTORY) return;
        const folder = listed.get(folderNumber(path, `${inode} ${ctime}`));
        if (folder !== undefined) confirmed.add(folder);
      },
      end() {
        hasAfter = true;
      },
    },
    files() {
      if (at === undefined || listed.size > MOST_FOLDERS) return undefined;
      const folders = foldersOf(hasAfter ? confirmed : listed.values());
      return { at, folders, settledBefore: settledBefore(at) };
    },
  };
}
