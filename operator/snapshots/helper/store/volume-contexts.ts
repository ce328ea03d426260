import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isObjectName } from "../../../../crds/names.ts";
import { StoreError, StoreFullError } from "../../../../crds/snapshots/snapshot-store.ts";
import type { Turns } from "./turns.ts";
import { ifThere, type ReadSpace, removeIfEmpty, syncFolders } from "./volume-files.ts";
import { type WrittenFile, writeFile } from "./write-file.ts";

/** No tenant id begins with a dot, so this folder never looks like a tenant's. */
const FOLDER = ".contexts";
/** Contexts leave this share of the volume free, twice the share that large archives leave to small ones. */
const FREE_SHARE = 10;
/** After so many bytes, the room is checked again. */
const PIECE_BYTES = 16 * 1024 * 1024;
/** A younger context may belong to an upload that is about to get its name. */
const YOUNG_MS = 2 * 60_000;
const LEFTOVER_MS = 3_600_000;

/** Build contexts on the snapshots volume: `.contexts/<workload>/<sha256>`. */
export interface VolumeContexts {
  /** Writes a context under a temporary name, which no client can read. @throws StoreError if there is no room */
  receiveContext(
    workload: string,
    content: AsyncIterable<Uint8Array>,
    options: { id: string; mostBytes: number; volumeBytes?: number | undefined; signal: AbortSignal },
  ): Promise<WrittenFile>;
  /** Gives a received context its name, and deletes the workload's others. @throws StoreError if it does not exist */
  keepContext(workload: string, options: { id: string; sha256: string; other?: string | undefined }): Promise<void>;
  openContext(workload: string, sha256: string): Promise<{ handle: FileHandle; sizeBytes: number } | undefined>;
  /** Deletes the context that was received with the id. @param id @default all contexts of the workload */
  eraseContexts(workload: string, id?: string): Promise<void>;
  /** Whether a file belongs to a context that is being received, or waits for its name. */
  holdsContext(path: string): boolean;
}

export function createVolumeContexts(options: {
  root: string;
  space: ReadSpace;
  turns: Turns;
  now: () => number;
}): VolumeContexts {
  const { root, space, turns, now } = options;
  const top = join(root, FOLDER);

  function folderOf(workload: string): string {
    if (isObjectName(workload)) return join(top, workload);
    throw new TypeError(`Cannot keep a build context of "${workload}": that is not a valid name of a workload`);
  }

  /** The paths of received contexts without their name. */
  const unnamed = new Set<string>();

  const partialOf = (workload: string, id: string): string => join(folderOf(workload), `.${id}.partial`);

  /** One turn for all workloads, since the last deletion removes the folder of all. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    return turns.take(FOLDER, work);
  }

  async function begin(workload: string, id: string): Promise<FileHandle> {
    await stat(root);
    await mkdir(folderOf(workload), { recursive: true, mode: 0o700 });
    unnamed.add(partialOf(workload, id));
    return await open(partialOf(workload, id), "wx", 0o600);
  }

  async function checkRoom(volumeBytes = Number.POSITIVE_INFINITY): Promise<void> {
    const { freeBytes, totalBytes } = await space();
    if (freeBytes - PIECE_BYTES >= Math.min(volumeBytes, totalBytes) / FREE_SHARE) return;
    throw new StoreFullError(
      "the snapshots volume has no room for the build context: enlarge the volume, or delete snapshots",
    );
  }

  async function removeFolders(workload: string): Promise<void> {
    await removeIfEmpty(folderOf(workload));
    await removeIfEmpty(top);
  }

  return {
    async receiveContext(workload, content, { id, mostBytes, volumeBytes, signal }) {
      folderOf(workload);
      await checkRoom(volumeBytes);
      const handle = await inTurn(() => begin(workload, id));
      let checked = 0;
      try {
        return await writeFile(handle, content, {
          signal,
          async check(sizeBytes) {
            if (sizeBytes > mostBytes) {
              throw new StoreError(`the build context has more than ${mostBytes} bytes`, { isTransient: false });
            }
            if (sizeBytes - checked < PIECE_BYTES) return;
            checked = sizeBytes;
            await checkRoom(volumeBytes);
          },
        });
      } catch (error) {
        await inTurn(async () => {
          unnamed.delete(partialOf(workload, id));
          await rm(partialOf(workload, id), { force: true });
          await removeFolders(workload);
        });
        throw error;
      }
    },

    async keepContext(workload, { id, sha256, other }) {
      const folder = folderOf(workload);
      await inTurn(async () => {
        const place = join(folder, sha256);
        const partial = partialOf(workload, id);
        // The answer to the same call may have been lost.
        const isReceived = (await ifThere(stat(partial))) !== undefined;
        if (isReceived) await rename(partial, place);
        else if ((await ifThere(stat(place))) === undefined) {
          throw new StoreError("the upload was deleted in the meantime", { isTransient: true });
        }
        unnamed.delete(partial);
        await syncFolders(folder, top, root);
        for (const name of await readdir(folder)) {
          if (name === sha256 || name === other) continue;
          const { mtimeMs } = (await ifThere(stat(join(folder, name)))) ?? { mtimeMs: now() };
          const ageMs = now() - mtimeMs;
          if (ageMs > (name.startsWith(".") ? LEFTOVER_MS : YOUNG_MS)) await rm(join(folder, name), { force: true });
        }
      });
    },

    async openContext(workload, sha256) {
      const handle = await ifThere(open(join(folderOf(workload), sha256), "r"));
      return handle && { handle, sizeBytes: (await handle.stat()).size };
    },

    async eraseContexts(workload, id) {
      const folder = folderOf(workload);
      await inTurn(async () => {
        if (id === undefined) await rm(folder, { recursive: true, force: true });
        else await rm(partialOf(workload, id), { force: true });
        if (id !== undefined) unnamed.delete(partialOf(workload, id));
        await removeFolders(workload);
      });
    },

    holdsContext: (path) => unnamed.has(path),
  };
}
