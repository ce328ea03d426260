import { createHash } from "node:crypto";
import { overlayRoots } from "../../crds/archive/overlay-roots.ts";
import { createLineReader, LISTED, type ListOptions, listFiles, type PodTime, wasSetBack } from "./unchanged-files.ts";

/**
 * By then the kernel has written out what programs have changed through memory, and shows a later time from the next
 * such change on.
 */
const QUIET_MS = 120_000;

/** Files of a pod that were as they are for two minutes before they were listed. */
export interface QuietFiles {
  /** Of the list, in its order. */
  readonly digest: string;
  readonly at: PodTime;
}

/** Lists the overlay directories of a pod; undefined where something was changed lately, and in any doubt. */
export async function listQuietFiles(options: ListOptions): Promise<QuietFiles | undefined> {
  const hash = createHash("sha256");
  let at: PodTime | undefined;
  let before = "";
  const lines = createLineReader(overlayRoots(options.overlayDirs), {
    isTimeGood(time) {
      at = time;
      const latest = new Date(Date.parse(`${time.now.replace(" ", "T").slice(0, 23)}Z`) - QUIET_MS);
      before = latest.toISOString().replace("T", " ").slice(0, 23);
      return true;
    },
    isEntryGood(line) {
      hash.update(`${line}\n`, "latin1");
      const ctime = LISTED.exec(line)?.[7];
      return ctime !== undefined && ctime < before;
    },
  });
  const isRead = (await listFiles(lines, options)) && lines.isWhole();
  return isRead && at !== undefined ? { digest: hash.digest("hex"), at } : undefined;
}

/** Whether nothing was changed between two lists of the same pod. */
export function areSameFiles(before: QuietFiles, after: QuietFiles): boolean {
  return before.digest === after.digest && !wasSetBack(before.at, after.at);
}
