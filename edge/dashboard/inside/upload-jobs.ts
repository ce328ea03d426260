import { CallError, call, ifGone } from "../api/call.ts";
import { sendFile } from "../api/send-file.ts";
import { confirm } from "../parts/confirm.tsx";
import { type Found, foundIn } from "./dropped-folder.ts";
import { type FilePath, type InstanceFile, nameOf } from "./file-path.ts";
import { filePath, filesPath } from "./folder.ts";
import type { Upload } from "./uploads.tsx";

/**
 * Uploads something, after a question if it would replace what is there.
 *
 * @returns whether it was wanted
 * @throws Error that says why it failed; the signal's reason
 */
export type UploadJob = (progress: {
  readonly signal: AbortSignal;
  change(fields: Partial<Upload>): void;
}) => Promise<boolean>;

/** Browsers open six connections to a server, and one of them watches the folder. */
const FILES_AT_ONCE = 3;

export function fileJob(instance: string, { file, path }: { file: File; path: FilePath }): UploadJob {
  return async ({ signal, change }) => {
    const present = await presentAt({ instance, path }, signal);
    const lost = "The file in the instance is replaced by the one that you upload.";
    if (present !== undefined && !(await isMeant(`Replace ${nameOf(path)}?`, lost, "Replace"))) return false;
    change({ state: "sending" });
    await sendFile<InstanceFile>("PUT", filePath(instance, path), {
      ...{ file, signal, type: "application/octet-stream", isNew: present === undefined },
      onSent: (sent) => change({ sent }),
    });
    change({ doneFiles: 1 });
    return true;
  };
}

/** Unpacks a tar or tar.gz into a folder. */
export function archiveJob(instance: string, { file, folder }: { file: File; folder: FilePath }): UploadJob {
  return async ({ signal, change }) => {
    const query = new URLSearchParams({ folder, limit: "1" });
    const some = await call<InstanceFile[]>("GET", `${filesPath(instance)}?${query}`, { signal });
    const lost = "The folder is not empty. Files in it that the archive has too are replaced.";
    if (some.length > 0 && !(await isMeant(`Unpack into ${nameOf(folder)}?`, lost, "Unpack"))) return false;
    change({ state: "sending" });
    await sendFile<InstanceFile>("PUT", `${filePath(instance, folder)}?unpack=true`, {
      ...{ file, signal, type: "application/octet-stream" },
      onSent: (sent) => change({ sent, note: sent < file.size ? "" : "unpacking …" }),
    });
    change({ doneFiles: 1, note: "" });
    return true;
  };
}

/** Uploads a folder of this machine to a path; it ends with the first file that fails. */
export function folderJob(instance: string, { of, path }: { of: FileSystemEntry; path: FilePath }): UploadJob {
  return async ({ signal, change }) => {
    const all = await foundIn(of, { path, signal });
    change({ size: all.reduce((sum, { file }) => sum + (file?.size ?? 0), 0), files: all.length });
    const present = await presentAt({ instance, path }, signal);
    if (present?.type === "file" || present?.type === "other") throw new Error("There is a file of this name.");
    const lost = "The folder is there already. Files in it that have the same names are replaced.";
    if (present !== undefined && !(await isMeant(`Upload into ${nameOf(path)}?`, lost, "Upload"))) return false;
    change({ state: "sending" });

    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const left = all.values();
    let sent = 0;
    let doneFiles = 0;
    const sendSome = async (): Promise<void> => {
      for (const one of left) {
        let before = 0;
        const onSent = (bytes: number): void => {
          sent += bytes - before;
          before = bytes;
          change({ sent });
        };
        either.throwIfAborted();
        await sendOne(one, { instance, signal: either, isNew: present === undefined, onSent });
        doneFiles += 1;
        change({ doneFiles, note: `${doneFiles} of ${all.length} files` });
      }
    };
    try {
      await Promise.all(Array.from({ length: FILES_AT_ONCE }, sendSome));
    } catch (error) {
      failed.abort(error);
      throw error;
    }
    return true;
  };
}

async function sendOne(
  { path, file }: Found,
  options: { instance: string; signal: AbortSignal; isNew: boolean; onSent(bytes: number): void },
): Promise<void> {
  const { instance, signal, isNew, onSent } = options;
  const to = filePath(instance, path);
  try {
    if (file === undefined) await call<InstanceFile>("POST", `${to}?mkdir=true`, { signal });
    else await sendFile<InstanceFile>("PUT", to, { file, signal, isNew, onSent, type: "application/octet-stream" });
  } catch (error) {
    // What the API says names the file.
    if (signal.aborted || (error instanceof CallError && error.status !== 0)) throw error;
    throw new Error(`${nameOf(path)}: ${(error as Error).message}`, { cause: error });
  }
}

/** What a path names, if there is something. */
async function presentAt(
  { instance, path }: { instance: string; path: FilePath },
  signal: AbortSignal,
): Promise<InstanceFile | undefined> {
  const query = new URLSearchParams({ folder: path, depth: "0" });
  const found = await call<InstanceFile[]>("GET", `${filesPath(instance)}?${query}`, { signal }).catch(ifGone);
  return found?.[0];
}

function isMeant(title: string, lost: string, verb: string): Promise<boolean> {
  return confirm({ title, lost, verb });
}
