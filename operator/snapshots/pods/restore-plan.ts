import { BLOCK, type TarEntry, writeTarHeader } from "../../../crds/archive/tar-header.ts";

/** The steps that follow the unpacking of an archive. */
export interface RestorePlan {
  /** Changes an entry so that an unprivileged user can unpack it and the entries inside; undefined leaves it out. */
  rewrite(entry: TarEntry): TarEntry | undefined;
  hasDirectories(): boolean;
  /** A tar archive that sets the times of the unpacked directories. */
  directoryTimes(): Generator<Buffer>;
  /** Whether an entry has a mode that unpacking does not set. */
  hasModes(): boolean;
  /** Lines for a shell whose `$b` is busybox, which set the modes that unpacking does not set. */
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
 * Plans around two limits of busybox tar for an unprivileged user. It creates a directory with its final mode and time
 * before it writes into it, and it sets no setuid, setgid or sticky bit. So directories are created writable, their
 * times are set after the unpacking, and the modes are set last. They are set from the inside out, since the mode of a
 * directory may forbid to enter it.
 *
 * The overlay directories themselves are left out: they are mount points that belong to the kubelet. The check of the
 * archive bounds the memory used here.
 */
export function createRestorePlan({ roots }: { roots: readonly string[] }): RestorePlan {
  const remembered: Remembered[] = [];
  let isSorted = true;

  /** The contents of a folder come before the folder. If a path came twice, its last entry stays the last. */
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
