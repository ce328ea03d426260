import { BLOCK, type TarEntry, writeTarHeader } from "../../../crds/archive/tar-header.ts";

/** What is left to do when everything is unpacked. */
export interface RestorePlan {
  /** Changes an entry so that a user without rights can unpack it and what comes after it; undefined leaves it out. */
  rewrite(entry: TarEntry): TarEntry | undefined;
  hasDirectories(): boolean;
  /** A tar archive that gives the directories, which are there by then, their times. */
  directoryTimes(): Generator<Buffer>;
  /** Whether there is a mode that unpacking does not set. */
  hasModes(): boolean;
  /** Lines for a shell whose `$b` is busybox, that set the modes which unpacking does not. */
  modeCommands(): Generator<Buffer>;
}

interface Remembered {
  readonly path: string;
  readonly mode: number;
  readonly mtime: number;
  readonly isDirectory: boolean;
  readonly depth: number;
}

const maxCommandBytes = 32 * 1024;

/**
 * Plans around what busybox tar does not do for a user without rights: it makes a directory with its final mode and
 * time and then writes into it, and sets no setuid, setgid or sticky bit. So directories are made writable first; their
 * times come when all is unpacked, the modes last and from the inside out, since a directory may take the right to
 * enter it.
 *
 * The overlay directories themselves are left out: they are mount points, and the kubelet's. What is remembered here
 * is bounded by the check of the archive.
 */
export function createRestorePlan({ roots }: { roots: readonly string[] }): RestorePlan {
  const remembered: Remembered[] = [];
  let isSorted = true;

  /** What is in a folder before the folder, wherever they came; of a path that came twice, what came last is last. */
  function insideOut(): readonly Remembered[] {
    if (!isSorted) remembered.sort((one, other) => other.depth - one.depth);
    isSorted = true;
    return remembered;
  }

  return {
    rewrite(entry) {
      const { type, path, mode, mtime } = entry;
      const isDirectory = type === "directory";
      if (isDirectory && roots.includes(path)) return undefined;
      if (!isDirectory && !(type === "file" && (mode & 0o7000) !== 0)) return entry;
      remembered.push({ path, mode, mtime, isDirectory, depth: path.split("/").length });
      isSorted = false;
      return isDirectory ? { ...entry, mode: writable(mode) } : entry;
    },
    hasDirectories: () => remembered.some(({ isDirectory }) => isDirectory),
    *directoryTimes() {
      for (const { path, mode, mtime, isDirectory } of insideOut()) {
        if (!isDirectory) continue;
        yield writeTarHeader({
          type: "directory",
          path,
          mode: writable(mode),
          uid: 0,
          gid: 0,
          mtime,
          size: 0,
          target: "",
        });
      }
      yield Buffer.alloc(2 * BLOCK);
    },
    hasModes: () => remembered.some((entry) => !isSetByUnpacking(entry)),
    *modeCommands() {
      let line = "";
      let lineMode = -1;
      for (const entry of insideOut()) {
        if (isSetByUnpacking(entry)) continue;
        const { path, mode } = entry;
        const word = ` './${path.replaceAll("'", "'\\''")}'`;
        if (mode !== lineMode || line.length + word.length > maxCommandBytes) {
          if (line !== "") yield Buffer.from(`${line} || exit 1\n`, "latin1");
          line = `"$b" chmod ${mode.toString(8).padStart(4, "0")}`;
          lineMode = mode;
        }
        line += word;
      }
      if (line !== "") yield Buffer.from(`${line} || exit 1\n`, "latin1");
    },
  };
}

function isSetByUnpacking({ mode, isDirectory }: Remembered): boolean {
  return isDirectory && (mode & 0o7700) === 0o700;
}

function writable(mode: number): number {
  return (mode & 0o777) | 0o700;
}
