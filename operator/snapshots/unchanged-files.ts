import { createHash } from "node:crypto";
import { Writable } from "node:stream";
import { overlayRoots } from "../../crds/archive/overlay-roots.ts";
import type { TarEntry } from "../../crds/archive/tar-header.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import { type OverlayPod, overlayCommand } from "./overlay-pod.ts";

const LIST_LIMIT_MS = 60_000;
const MOST_LISTED_BYTES = 32 * 1024 * 1024;
const MOST_LINE_BYTES = 16 * 1024;
/** By how much the times of two clocks that are read in a row, and of the kernel's ticks, are apart. */
const CLOCK_SECONDS = 0.05;
/** Two changes of a file that are this far apart have different times. */
const TICK_NANOSECONDS = 10_000_000;

/**
 * Types of file systems, in hexadecimal digits, whose files show a later time from the first write to a mapped page on:
 * ext4, XFS, Btrfs and F2FS. One in memory never does, and others do so when they write the page out.
 */
export const TIMES_OF_MAPPED_FILES: ReadonlySet<string> = new Set(["ef53", "58465342", "9123683e", "f2f52010"]);

const [FILE, DIRECTORY, SYMLINK] = [0o100_000, 0o040_000, 0o120_000];

/** The clocks of a pod at one moment. */
export interface PodTime {
  /** What a file's ctime is that changes now, as busybox shows it in UTC. */
  readonly now: string;
  /** Seconds since the node's start. */
  readonly uptime: number;
}

/** The files of a pod as a restore has left them, before anything else could change them. */
export interface RestoredFiles {
  /** A digest of what is known of each. */
  readonly digest: string;
  readonly at: PodTime;
}

/** Takes note of the entries that are unpacked into a pod, in memory that does not depend on how many they are. */
export interface EntryList {
  add(entry: TarEntry): void;
  /** Undefined when there is one that a list of the pod cannot show. */
  digest(): string | undefined;
}

export function createEntryList(roots: readonly string[]): EntryList {
  const digest = createSetDigest();
  let isUsable = true;
  return {
    add({ type, path, mode, mtime, size }) {
      if (type === "directory" && roots.includes(path)) return;
      if (path.includes("\n")) isUsable = false;
      digest.add(`${kinds[type]} ${path}`);
      // Other names of a file are entries of their own, without its mode and times.
      if (type !== "hardlink") digest.add(shown({ kind: kinds[type], path, mode, size, mtime }));
    },
    digest: () => (isUsable ? digest.value() : undefined),
  };
}

const kinds = { file: FILE, hardlink: FILE, directory: DIRECTORY, symlink: SYMLINK } as const;

/**
 * What is known of an entry beside its name. Times of symlinks are not kept. A file is not told from another here, since
 * it can have several names: that neither its ctime has moved nor that of a directory above it tells that it is the same.
 */
function shown(entry: { kind: number; path: string; mode: number; size: number; mtime: number }): string {
  const { kind, path, mode, size, mtime } = entry;
  if (kind === SYMLINK) return "symlink";
  return kind === FILE ? `file ${mode} ${size} ${mtime}` : `directory ${mode} ${mtime} ${path}`;
}

/**
 * A digest of lines in no order: the sum of their digests. Whoever could find other lines of the same sum would keep
 * only a save of their own files from being made.
 */
function createSetDigest(): { add(line: string): void; value(): string } {
  let sum = 0n;
  return {
    add(line) {
      const digest = createHash("sha256").update(line, "latin1").digest("hex");
      sum = BigInt.asUintN(256, sum + BigInt(`0x${digest}`));
    },
    value: () => sum.toString(16),
  };
}

/**
 * For a shell whose `$b` is busybox: says the time that `readPodTime` reads. No file is made for it: what a process has
 * below `/proc` is as old as the process.
 */
export const SAY_POD_TIME = `echo "answer at $(TZ=UTC0 "$b" stat -L -c %z /proc/self/stat) $("$b" cat /proc/uptime)"`;

const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}`;
const POD_TIME = new RegExp(`^answer at (${TIME}) \\+0000 (\\d+\\.\\d+) `, "m");

/** The time that a script has said in the middle of what it wrote. */
export function readPodTime(output: string): PodTime | undefined {
  const [, now, uptime] = POD_TIME.exec(output) ?? [];
  return now === undefined ? undefined : { now, uptime: Number(uptime) };
}

/** For a shell whose `$b` is busybox: says the type of the file system that `$folder` is on. */
export const SAY_FILE_SYSTEM = `echo "file system $("$b" stat -f -c %t "./$folder")"`;

const script = `b="$1"; cd "$2" || exit 1; shift 2; export LC_ALL=C TZ=UTC0
${SAY_POD_TIME}
for folder; do
  ${SAY_FILE_SYSTEM}
done
for folder; do
  "$b" find "./$folder" -exec "$b" stat -c '%f %h %i %s %Y %y|%z|%n' {} + || exit 1
done
echo end`;

/**
 * Whether the overlay directories of a pod hold what was restored into them, and nothing was changed since: the same
 * names, types, modes, sizes and times, and nothing with a ctime after the restore, which nobody can set. Directories
 * count too: one that is renamed takes files along whose ctime stays
 * (docs/decisions/snapshots.md#files-that-nobody-changed-are-not-saved).
 *
 * Any doubt is a no.
 */
export async function areUnchanged(restored: RestoredFiles, options: ListOptions): Promise<boolean> {
  const list = createListReader({ roots: overlayRoots(options.overlayDirs), at: restored.at });
  return (await listFiles(list, options)) && list.digest() === restored.digest;
}

export interface ListOptions {
  readonly exec: Exec;
  readonly pod: OverlayPod;
  readonly overlayDirs: readonly string[];
  readonly signal: AbortSignal;
}

/** Has a reader take the list of the overlay directories of a pod; false where that fails, or the reader ends it. */
export async function listFiles(list: Pick<ListReader, "take">, options: ListOptions): Promise<boolean> {
  const { exec, pod, overlayDirs, signal } = options;
  const target = overlayCommand(pod, script, overlayRoots(overlayDirs));
  // Read as it comes: a pod that says much is not to take the operator's memory, nor its time in one piece.
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      callback(list.take(chunk.toString("latin1")) ? null : new Error("the files are not as they should be"));
    },
  });
  try {
    const { exitCode } = await exec({ ...target, stdout, signal, timeoutMs: LIST_LIMIT_MS });
    return exitCode === 0;
  } catch {
    // The save that follows says what is wrong with the pod.
    signal.throwIfAborted();
    return false;
  }
}

/** A line of an entry: its mode, links, inode, size, mtime in seconds, mtime, ctime and path. */
export const LISTED = new RegExp(
  `^([0-9a-f]+) (\\d+) (\\d+) (\\d+) (-?\\d+) (${TIME}) \\+0000\\|(${TIME}) \\+0000\\|\\./(.+)$`,
);

/** Reads what is listed of a pod. */
interface ListReader {
  /** Takes some more of it; false from the first on that shows a change, or might not show one. */
  take(output: string): boolean;
  /** Undefined unless it has come to its end, and shows no change. */
  digest(): string | undefined;
}

export function createListReader({ roots, at }: { roots: readonly string[]; at: PodTime }): ListReader {
  const digest = createSetDigest();
  /** Of files with several names. */
  const inodes = new Set<string>();
  const listed = new Set<string>();
  const fine = new Set<string>();
  const used = new Set<string>();

  function isEntryGood(line: string): boolean {
    const [, raw = "", links, inode = "", size, seconds, mtime = "", ctime = "", path = ""] = LISTED.exec(line) ?? [];
    const root = roots.find((folder) => `${path}/`.startsWith(`${folder}/`));
    if (root === undefined || ctime > at.now) return false;
    const kind = Number.parseInt(raw, 16) & 0o170_000;
    const mode = Number.parseInt(raw, 16) & 0o7777;
    if (kind !== FILE && kind !== DIRECTORY && kind !== SYMLINK) return false;
    // The directory itself is the pod's, and not of the archive.
    if (path === root) {
      listed.add(root);
      return true;
    }
    // Whole seconds are restored.
    if (kind !== SYMLINK && !mtime.endsWith(".000000000")) return false;
    used.add(root);
    if (Number(ctime.slice(-9)) % TICK_NANOSECONDS !== 0) fine.add(root);
    digest.add(`${kind} ${path}`);
    if (inodes.has(inode)) return true;
    if (kind === FILE && links !== "1") inodes.add(inode);
    digest.add(shown({ kind, path, mode, size: Number(size), mtime: Number(seconds) }));
    return true;
  }

  const lines = createLineReader(roots, { isTimeGood: (time) => !wasSetBack(at, time), isEntryGood });

  return {
    take: lines.take,
    digest() {
      if (!lines.isWhole() || listed.size !== roots.length) return undefined;
      // Of a file system that rounds times down, a change may show no later time.
      return fine.size === used.size ? digest.value() : undefined;
    },
  };
}

/** Cuts what is listed into lines, until one is not good. */
export function createLineReader(
  roots: readonly string[],
  { isTimeGood, isEntryGood }: { isTimeGood: (time: PodTime) => boolean; isEntryGood: (line: string) => boolean },
): { take(output: string): boolean; isWhole(): boolean } {
  let bytes = 0;
  let pending = "";
  let lines = 0;
  let hasEnded = false;
  let isBad = false;

  function isLineGood(line: string): boolean {
    lines += 1;
    if (hasEnded) return false;
    if (lines === 1) {
      const time = readPodTime(`${line}\n`);
      return time !== undefined && isTimeGood(time);
    }
    if (lines <= 1 + roots.length) return TIMES_OF_MAPPED_FILES.has(/^file system ([0-9a-f]+)$/.exec(line)?.[1] ?? "");
    hasEnded = line === "end";
    return hasEnded || isEntryGood(line);
  }

  return {
    take(output) {
      bytes += output.length;
      pending += output;
      let start = 0;
      for (let end = pending.indexOf("\n"); end !== -1 && !isBad; end = pending.indexOf("\n", start)) {
        isBad = !isLineGood(pending.slice(start, end));
        start = end + 1;
      }
      pending = pending.slice(start);
      isBad ||= pending.length > MOST_LINE_BYTES || bytes > MOST_LISTED_BYTES;
      return !isBad;
    },
    isWhole: () => !isBad && hasEnded && pending === "",
  };
}

/** Whether the clock may have been set back in between, so that what was changed since can have a time before. */
export function wasSetBack(before: PodTime, after: PodTime): boolean {
  // What a clock says before and after a start of its node cannot be compared.
  if (after.uptime < before.uptime) return true;
  const [started, startedNow] = [before, after].map(
    ({ now, uptime }) => Date.parse(`${now.replace(" ", "T").slice(0, 23)}Z`) / 1000 - uptime,
  ) as [number, number];
  return !(startedNow >= started - CLOCK_SECONDS);
}
