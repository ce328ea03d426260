import type { ListedFile, ListReader } from "./file-list.ts";
import { type PodTime, wasSetBack } from "./pod-time.ts";

/** Two changes of a file have different times if they are this far apart. */
const TICK_NANOSECONDS = 10_000_000;

/**
 * Types of file systems, in hexadecimal, whose files show a later time from the first write to a mapped page on: ext4,
 * XFS, Btrfs and F2FS. A file system in memory never does, and others do only when they write the page out.
 */
export const TIMES_OF_MAPPED_FILES: ReadonlySet<string> = new Set(["ef53", "58465342", "9123683e", "f2f52010"]);

/** Checks whether the times in a list show each change of a file. */
export interface ListTrust extends ListReader {
  /** @returns whether the list may still be trusted */
  file(file: ListedFile): boolean;
  /** Why the list is not trusted; undefined if it is. Call it once the list is complete. */
  doubt(): string | undefined;
}

/** @param since changes after this are of interest */
export function createListTrust(since: PodTime, { roots }: { roots: readonly string[] }): ListTrust {
  const [listed, used, exact] = [new Set<string>(), new Set<string>(), new Set<string>()];
  let bad: string | undefined;
  return {
    time(time) {
      if (wasSetBack(since, time)) bad ??= `the clock may have been set back since ${said(since)}: ${said(time)}`;
    },
    fileSystem(type) {
      if (!TIMES_OF_MAPPED_FILES.has(type)) bad ??= `a file system of type ${type} does not show each change`;
    },
    file({ path, ctime }) {
      const root = roots.find((folder) => `${path}/`.startsWith(`${folder}/`));
      if (root === undefined) bad ??= `"${path}" is in none of the overlay directories`;
      else if (path === root) listed.add(root);
      else {
        used.add(root);
        if (Number(ctime.slice(-9)) % TICK_NANOSECONDS !== 0) exact.add(root);
      }
      return bad === undefined;
    },
    end(vanished) {
      if (vanished > 0) bad ??= `${vanished} files were gone while they were listed`;
    },
    doubt() {
      if (bad !== undefined) return bad;
      if (listed.size < roots.length) return "an overlay directory is not in the list";
      // If a file system rounds times down, a change may show no later time. So each used one has to show exact times.
      return exact.size < used.size ? "a file system may round its times" : undefined;
    },
  };
}

function said({ clock, uptime }: PodTime): string {
  return `${clock} s at ${uptime.join(" to ")} s after the node's start`;
}
