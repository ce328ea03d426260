import { childOf, type FilePath } from "./file-path.ts";

/** What is in a folder of this machine. */
export interface Found {
  /** Where it will be in the instance. */
  readonly path: FilePath;
  /** Undefined for a folder that is empty. */
  readonly file: File | undefined;
}

/** Each file is a request of its own. */
const MOST_ENTRIES = 1000;

/**
 * The files and the empty folders in a folder that was dropped.
 *
 * @param path where the folder will be in the instance
 * @throws Error if it has too many or one cannot be read; the signal's reason
 */
export async function foundIn(
  folder: FileSystemEntry,
  { path, signal }: { path: FilePath; signal: AbortSignal },
): Promise<readonly Found[]> {
  const found: Found[] = [];
  let left = MOST_ENTRIES;

  async function walk(entry: FileSystemEntry, at: FilePath): Promise<void> {
    signal.throwIfAborted();
    if (!isFolder(entry)) {
      found.push({ path: at, file: await fileOf(entry as FileSystemFileEntry) });
      return;
    }
    const isEmpty = await eachChild(entry, async (child) => {
      left -= 1;
      if (left < 0)
        throw new Error(
          `It has more than ${MOST_ENTRIES} files and folders. Upload it with "Unpack an archive" instead.`,
        );
      await walk(child, childOf(at, pathName(child.name)));
    });
    if (isEmpty) found.push({ path: at, file: undefined });
  }

  await walk(folder, path);
  return found;
}

/** The name of a file of this machine as a part of a path. */
export function pathName(name: string): FilePath {
  return name.replaceAll("%", "%25");
}

function isFolder(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory;
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, (cause) => reject(unreadable(entry, cause))));
}

/** @returns whether there was no child */
async function eachChild(
  folder: FileSystemDirectoryEntry,
  act: (child: FileSystemEntry) => Promise<void>,
): Promise<boolean> {
  const reader = folder.createReader();
  for (let isEmpty = true; ; isEmpty = false) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, (cause) => reject(unreadable(folder, cause))),
    );
    if (some.length === 0) return isEmpty;
    for (const child of some) await act(child);
  }
}

function unreadable({ name }: FileSystemEntry, cause: unknown): Error {
  return new Error(`${name} cannot be read on this machine.`, { cause });
}
