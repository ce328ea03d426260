import { createHash } from "node:crypto";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { type PodTime, readPodTime, SAY_FILE_SYSTEM, SAY_POD_TIME } from "./pod-time.ts";

/**
 * An entry of a pod's overlay directories: a file, directory, link or other. Each character of a string is one byte.
 */
export interface ListedFile {
  /** Includes the bits of the type. */
  readonly mode: number;
  readonly links: number;
  /** Includes the number of the device. */
  readonly inode: string;
  readonly size: number;
  /** Seconds. */
  readonly mtime: number;
  /** In the format of busybox, in UTC. */
  readonly mtimeText: string;
  /** In the format of busybox, in UTC. */
  readonly ctime: string;
  /** Relative to `/`. */
  readonly path: string;
}

/** Receives the contents of a list, in its order. */
export interface ListReader {
  time(time: PodTime): void;
  /** Called for each overlay directory. */
  fileSystem(type: string): void;
  file(file: ListedFile): void;
  /** The list is complete. @param vanished how many names were gone when they were read */
  end(vanished: number): void;
}

/**
 * Functions for a shell whose `$b` is busybox. `judge` reads the error messages of `find`, `stat`, `tar` and `dd`. It
 * writes `good <blocks of dd> <number of names that were gone>`, or `failed` and the messages. A file that vanishes
 * while it is read is no failure here: the lists decide about a save, not these messages.
 *
 * `list` writes the entries of overlay directories, and then the result of `judge`. Each entry ends with two slashes,
 * which no path contains. find runs without an environment: it passes as many names to a command as fit beside an
 * environment of 2 KiB, and the program's may be larger.
 */
export const LIST_FUNCTIONS = String.raw`judge() {
  "$b" awk -v isList="$1" '
    /^tar: error exit delayed from previous errors$/ { orderly++; next }
    /^(find|stat|tar): .*: (No such file or directory|Not a directory)$/ { vanished++; next }
    /^tar: .*: socket ignored$/ { next }
    /^ended with [0-9]+$/ { code = $3; ended++; next }
    /^[0-9]+[+][0-9]+ records in$/ { split($1, records, "+"); blocks = records[1] + records[2]; next }
    /^[0-9]+[+][0-9]+ records out$|^[0-9]+ bytes .*copied/ { next }
    { failures++; if (failures <= 10) shown = shown "\n" substr($0, 1, 500) }
    END {
      good = ended == 1 && failures == 0 && (code == 0 || code == 1 && vanished > 0 && (orderly == 1 || isList))
      if (good) print "good " blocks + 0 " " vanished + 0
      else print "failed" shown (failures > 10 ? "\nand " failures - 10 " more" : "") (code > 1 ? "\nit ended with " code : "")
      exit !good
    }'
}
list() {
  {
    {
      code=0
      for folder; do
        "$b" env -i LC_ALL=C TZ=UTC0 "$b" find "./$folder" -exec "$b" stat -c '%f %h %d:%i %s %Y %y|%z|%n//' {} + >&3 || code=1
      done
      echo "ended with $code"
    } 2>&1 | judge 1
  } 3>&1
}`;

/** The head of the first list: the pod's time and its file systems. */
export const LIST_HEAD = `${SAY_POD_TIME}
for folder; do
  ${SAY_FILE_SYSTEM}
done`;

const ENTRY =
  /^([0-9a-f]+) (\d+) (\d+:\d+) (\d+) (-?\d+) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}) \+0000\|(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}) \+0000\|\.\/(.+)$/s;
const MOST_ENTRY_BYTES = 16 * 1024;

/** How a list ended. */
export interface ListEnd {
  /** How many names were gone when they were read. */
  readonly vanished: number;
  /** Of the entries and the end of the list. */
  readonly digest: string;
}

export interface ListParser {
  /**
   * Takes the next part of a list. Returns what follows the list once it is complete.
   *
   * @throws ArchiveError if the list has too many entries, and Error if it has another format
   */
  take(chunk: Buffer): Buffer | undefined;
  /** Undefined until the list is complete, and if it failed: then its error messages follow. */
  readonly end: ListEnd | undefined;
}

/** @param options.heads the number of overlay directories in the head of the list; undefined if the list has no head */
export function createListParser(
  readers: readonly Partial<ListReader>[],
  { maxEntries, heads }: { maxEntries: number; heads: number | undefined },
): ListParser {
  const hash = createHash("sha256");
  const allHeadLines = heads === undefined ? 0 : 1 + heads;
  let headLines = allHeadLines;
  let pending = "";
  let entries = 0;
  let end: ListEnd | undefined;

  function takeHead(line: string): void {
    if (headLines === allHeadLines) {
      const time = readPodTime(`${line}\n`);
      if (time === undefined) throw unreadable();
      for (const reader of readers) reader.time?.(time);
    } else {
      const [, type] = /^file system ([0-9a-f]*)$/.exec(line) ?? [];
      if (type === undefined) throw unreadable();
      for (const reader of readers) reader.fileSystem?.(type);
    }
    headLines -= 1;
  }

  function takeEntry(text: string): void {
    const [, mode = "", links, inode = "", size, mtime, mtimeText = "", ctime = "", path = ""] = ENTRY.exec(text) ?? [];
    if (path === "") throw unreadable();
    entries += 1;
    if (entries > maxEntries) throw new ArchiveError("TooLarge", `there are more than ${maxEntries} entries`);
    const numbers = { links: Number(links), size: Number(size), mtime: Number(mtime) };
    const file = { mode: Number.parseInt(mode, 16), inode, mtimeText, ctime, path, ...numbers };
    for (const reader of readers) reader.file?.(file);
  }

  /** Returns how many characters were read. The rest is an incomplete entry, or follows the list. */
  function read(): number {
    let at = 0;
    while (headLines > 0) {
      const lineEnd = pending.indexOf("\n", at);
      if (lineEnd === -1) return at;
      takeHead(pending.slice(at, lineEnd));
      at = lineEnd + 1;
    }
    const start = at;
    for (;;) {
      const isLast = pending.startsWith("good ", at);
      const mark = isLast ? "\n" : "//\n";
      const entryEnd = pending.indexOf(mark, at);
      if (entryEnd === -1 || pending.startsWith("failed\n", at)) break;
      const text = pending.slice(at, entryEnd);
      at = entryEnd + mark.length;
      if (!isLast) {
        takeEntry(text);
        continue;
      }
      const [, vanished] = /^good 0 (\d+)$/.exec(text) ?? [];
      if (vanished === undefined) throw unreadable();
      const digest = hash.update(pending.slice(start, at), "latin1").digest("hex");
      end = { vanished: Number(vanished), digest };
      for (const reader of readers) reader.end?.(end.vanished);
      return at;
    }
    hash.update(pending.slice(start, at), "latin1");
    return at;
  }

  return {
    take(chunk) {
      pending += chunk.toString("latin1");
      pending = pending.slice(read());
      if (end === undefined && pending.length > MOST_ENTRY_BYTES) throw unreadable();
      return end === undefined && !pending.startsWith("failed\n") ? undefined : Buffer.from(pending, "latin1");
    },
    get end() {
      return end;
    },
  };
}

function unreadable(): Error {
  return new Error("Cannot read the list of the overlay directories: it has other lines than it should");
}
