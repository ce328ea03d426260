import { createHash } from "node:crypto";
import type { ListReader } from "./file-list.ts";
import { TIMES_OF_MAPPED_FILES } from "./list-trust.ts";
import { type PodTime, settledBefore, wasSetBack } from "./pod-time.ts";

/** The list of a pod's files that did not change in the two minutes before. */
export interface QuietFiles {
  /** Of the list, which depends on its order. */
  readonly digest: string;
  readonly at: PodTime;
}

/** Reads a list of the overlay directories of a pod. */
export interface QuietFilesReader extends ListReader {
  /** Call it once the list is complete. Undefined if a file was changed lately, or in any doubt. */
  files(): QuietFiles | undefined;
}

export function createQuietFilesReader(): QuietFilesReader {
  const hash = createHash("sha256");
  let at: PodTime | undefined;
  let before = "";
  let isQuiet = true;
  return {
    time(time) {
      at = time;
      before = settledBefore(time);
    },
    fileSystem(type) {
      isQuiet &&= TIMES_OF_MAPPED_FILES.has(type);
    },
    file({ mode, links, inode, size, mtimeText, ctime, path }) {
      hash.update(`${mode} ${links} ${inode} ${size} ${mtimeText} ${ctime} ${path}\0`, "latin1");
      isQuiet &&= ctime < before;
    },
    end(vanished) {
      isQuiet &&= vanished === 0;
    },
    files: () => (isQuiet && at !== undefined ? { digest: hash.digest("hex"), at } : undefined),
  };
}

/** Whether no file was changed between two lists of the same pod. */
export function areSameFiles(before: QuietFiles, after: QuietFiles): boolean {
  return before.digest === after.digest && !wasSetBack(before.at, after.at);
}
