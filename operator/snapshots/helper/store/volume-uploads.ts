import { type FileHandle, mkdir, open, readdir, rename, rm, utimes } from "node:fs/promises";
import { basename, join } from "node:path";
import { ArchiveError } from "../../../../crds/archive/archive-error.ts";
import type { TableMark } from "../../../../crds/archive/archive-table.ts";
import { composeArchive } from "../../../../crds/archive/compose-archive.ts";
import { checkSnapshotKey, type SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import { StoreConflict } from "../../../../crds/snapshots/snapshot-store.ts";
import { linkSignals } from "../../../../crds/waits.ts";
import { atMost } from "./at-most.ts";
import { openTabled } from "./tabled-file.ts";
import type { Turns } from "./turns.ts";
import { cannotStore, ifThere, linkOrCopy, placesOf, removeIfEmpty } from "./volume-files.ts";
import { type FoundFile, MARK, type VolumeState } from "./volume-state.ts";
import type { VolumeTenants } from "./volume-tenants.ts";
import { type WrittenFile, writeFile } from "./write-file.ts";

const MOST_LOOKS = 3;
/** Each takes up to 40 MiB of memory, and the time of a core. */
const MOST_COMPOSING = 2;

interface UploadOptions {
  /** 32 hexadecimal digits. */
  readonly id: string;
  /** Whether the volume had its mark before: then it must have it now. */
  readonly isMarked: boolean;
}

/** Archives that are being received or wait for their commit. */
export interface VolumeUploads {
  /** Writes an archive under a temporary name, and ends all other uploads of the same key. */
  receive(
    key: SnapshotKey,
    content: AsyncIterable<Uint8Array>,
    options: UploadOptions & { signal: AbortSignal },
  ): Promise<WrittenFile>;
  /** As `receive`, but copies an existing archive; undefined if it does not exist. */
  receiveKept(
    key: SnapshotKey,
    from: SnapshotKey & { readonly sha256: string },
    options: UploadOptions,
  ): Promise<(WrittenFile & { metadata: SnapshotMetadata }) | undefined>;
  /**
   * Makes a received archive a whole one: entries of a kept archive that stay come before its own.
   *
   * @throws ArchiveError if the kept archive does not exist, is damaged or has no table; StoreConflict as `take` does
   */
  compose(key: SnapshotKey, onto: Onto): Promise<ComposedFile>;
  /** A complete upload. @throws StoreConflict if there is none */
  take(key: SnapshotKey, id: string): ReceivedFile;
  /** Call this when the upload was committed. */
  forget(key: SnapshotKey, id: string): void;
  /** Ends and deletes all uploads of a key, in the tenant's turn. */
  drop(key: SnapshotKey, why: string): Promise<void>;
  /** Ends and deletes an upload that will not be committed, in the tenant's turn. */
  discard(key: SnapshotKey, id: string): Promise<void>;
  /** Whether a file belongs to an upload. */
  holds(path: string): boolean;
}

export interface ReceivedFile extends WrittenFile {
  readonly path: string;
  /** The entries of a kept archive are being added, or were. */
  readonly composing?: { readonly stop: AbortController; readonly ended: Promise<ComposedFile> };
}

/** What an upload is composed with. */
export interface Onto extends Pick<UploadOptions, "id"> {
  /** SHA-256 of the kept archive. */
  readonly base: string;
  /** Those of its entries that stay, as `EntryBits`. */
  readonly keeps: Uint8Array;
  /** Of the received archive. */
  readonly table: TableMark;
}

export interface ComposedFile extends WrittenFile {
  /** Undefined if there are too many entries for one. */
  readonly table: TableMark | undefined;
}

export function createVolumeUploads(options: {
  state: VolumeState;
  tenants: Pick<VolumeTenants, "has" | "note">;
  turns: Turns;
  now: () => number;
}): VolumeUploads {
  const { state, tenants, turns, now } = options;
  const { root } = state;
  /** Received uploads without a commit, by key and id; during the upload, the controller that aborts it. */
  const uploads = new Map<string, Map<string, ReceivedFile | AbortController>>();
  const composing = atMost(MOST_COMPOSING);

  /** Creates the tenant's folder. On a volume that ignores case, two tenants may share one name. */
  async function makeFolder(key: SnapshotKey): Promise<void> {
    const { folder } = placesOf(root, key);
    try {
      await mkdir(folder, { mode: 0o700 });
      tenants.note(key.tenantId);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (!(await tenants.has(key.tenantId))) {
      throw cannotStore(`the volume ignores case, and another tenant's folder has the name of ${folder}`);
    }
  }

  async function begin(
    key: SnapshotKey,
    options: { id: string; isMarked: boolean },
    upload: AbortController,
  ): Promise<string> {
    checkSnapshotKey(key);
    await state.checkRoot();
    if (!(await state.isMarked())) {
      if (options.isMarked) throw cannotStore("the mark that was on the volume is gone, so the volume was replaced");
      await (await open(join(root, MARK), "a", 0o600)).close();
    }
    await makeFolder(key);
    await drop(key, "another upload of the same files has begun");
    const { archive } = placesOf(root, key);
    uploads.set(archive, new Map([[options.id, upload]]));
    return partialOf(key, options.id);
  }

  function partialOf(key: SnapshotKey, id: string): string {
    return `${placesOf(root, key).archive}.${id.slice(0, 8)}.partial`;
  }

  /** While an upload is composed. */
  function composedOf(key: SnapshotKey, id: string): string {
    return `${placesOf(root, key).archive}.${id}.partial`;
  }

  /** The newest upload wins: earlier ones cannot be committed any more. */
  async function drop(key: SnapshotKey, why: string): Promise<void> {
    const { archive, folder } = placesOf(root, key);
    for (const upload of uploads.get(archive)?.values() ?? []) end(upload, why);
    uploads.delete(archive);
    const isPartial = (name: string) =>
      name.startsWith(`${basename(archive)}.`) &&
      /^(?:[0-9a-f]{16}\.json\.)?[0-9a-f]{8,32}\.partial(?:\.[0-9a-f]{32}\.partial)?$/.test(
        name.slice(basename(archive).length + 1),
      );
    for (const name of (await ifThere(readdir(folder))) ?? []) {
      if (isPartial(name)) await rm(join(folder, name), { force: true });
    }
  }

  /** Gives an archive a second name. A concurrent save may replace the archive in the meantime. */
  async function linkKept(
    { sha256, ...from }: SnapshotKey & { readonly sha256: string },
    to: { path: string; id: string },
  ): Promise<FoundFile | undefined> {
    for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
      const found = await state.find(from, sha256);
      if (found === undefined) return undefined;
      const isLinked = (await ifThere(linkOrCopy({ ...found, sha256 }, to))) === true;
      // If the archive is gone, another file may have its inode now.
      if (isLinked && (await state.find(from, sha256))?.path === found.path) return found;
    }
    return undefined;
  }

  function finish(key: SnapshotKey, id: string, upload: ReceivedFile): void {
    const { archive } = placesOf(root, key);
    const known = uploads.get(archive);
    if (known?.has(id) !== true) throw new StoreConflict("Cannot store the archive: a newer upload has replaced it");
    known.set(id, upload);
  }

  function take(key: SnapshotKey, id: string): ReceivedFile {
    const upload = uploads.get(placesOf(root, key).archive)?.get(id);
    if (upload === undefined || upload instanceof AbortController) {
      throw new StoreConflict("Cannot store the archive: a newer upload has replaced it, or it never arrived");
    }
    return upload;
  }

  function forget(key: SnapshotKey, id: string): void {
    const { archive } = placesOf(root, key);
    const known = uploads.get(archive);
    known?.delete(id);
    if (known?.size === 0) uploads.delete(archive);
  }

  async function discard(key: SnapshotKey, id: string): Promise<void> {
    checkSnapshotKey(key);
    const { archive, folder } = placesOf(root, key);
    const upload = uploads.get(archive)?.get(id);
    if (upload !== undefined) end(upload, "the upload was cancelled");
    forget(key, id);
    for (const path of [partialOf(key, id), composedOf(key, id)]) await rm(path, { force: true });
    await removeIfEmpty(folder);
  }

  /** @returns the upload, as it is after this */
  async function composeUpload(
    key: SnapshotKey,
    { upload, onto, signal }: { upload: ReceivedFile; onto: Onto; signal: AbortSignal },
  ): Promise<ComposedFile> {
    const { id, base, keeps, table } = onto;
    signal.throwIfAborted();
    const path = composedOf(key, id);
    const kept = await state.open(key, base);
    if (kept === undefined) throw new ArchiveError("NoVersion", "the archive that it continues does not exist");
    let received: FileHandle | undefined;
    try {
      const { metadata } = kept;
      if (metadata.table === undefined) throw new ArchiveError("Corrupt", "the archive that it continues has no table");
      received = await open(upload.path, "r");
      const whole = composeArchive({
        base: await openTabled(kept.handle, { ...metadata, table: metadata.table }),
        keeps,
        changes: await openTabled(received, { ...upload, table }),
      });
      const written = await writeFile(await open(path, "wx", 0o600), whole.content, { signal });
      await turns.take(key.tenantId, async () => {
        const { composing } = take(key, id);
        await rename(path, upload.path);
        finish(key, id, { ...written, path: upload.path, ...(composing && { composing }) });
      });
      return { ...written, table: whole.table() };
    } catch (error) {
      await rm(path, { force: true });
      throw signal.aborted ? signal.reason : error;
    } finally {
      await kept.handle.close();
      await received?.close();
    }
  }

  return {
    async receive(key, content, { id, isMarked, signal }) {
      const upload = new AbortController();
      // Within the turn, no other call removes the folder while it is empty.
      const { path, handle } = await turns.take(key.tenantId, async () => {
        const path = await begin(key, { id, isMarked }, upload);
        try {
          return { path, handle: await open(path, "wx", 0o600) };
        } catch (error) {
          await discard(key, id);
          throw error;
        }
      });
      const ending = linkSignals(signal, upload.signal);
      try {
        const received = await writeFile(handle, content, { signal: ending.signal });
        finish(key, id, { ...received, path });
        return received;
      } catch (error) {
        // Discarding an upload also aborts it: throw the original reason.
        const failure: unknown = upload.signal.aborted ? upload.signal.reason : error;
        await turns.take(key.tenantId, () => discard(key, id));
        throw failure;
      } finally {
        ending.close();
      }
    },

    async receiveKept(key, { sha256, ...from }, { id, isMarked }) {
      checkSnapshotKey(from);
      return await turns.take(key.tenantId, async () => {
        const path = await begin(key, { id, isMarked }, new AbortController());
        try {
          const found = await linkKept({ ...from, sha256 }, { path, id });
          if (found === undefined) {
            await discard(key, id);
            return undefined;
          }
          // The copy counts as used now, even if the archive is old.
          await utimes(path, now() / 1000, now() / 1000);
          const { sizeBytes, metadata } = found;
          finish(key, id, { sha256, sizeBytes, path });
          return { sha256, sizeBytes, metadata };
        } catch (error) {
          await discard(key, id);
          throw error;
        }
      });
    },

    async compose(key, onto) {
      const upload = take(key, onto.id);
      if (upload.composing !== undefined) return await upload.composing.ended;
      const stop = new AbortController();
      const ended = composing(() => composeUpload(key, { upload, onto, signal: stop.signal }));
      finish(key, onto.id, { ...upload, composing: { stop, ended } });
      return await ended;
    },

    take,
    forget,
    drop,
    discard,
    holds(path) {
      const { archive, digits } = /^(?<archive>.*)\.(?<digits>[0-9a-f]{8,32})\.partial$/.exec(path)?.groups ?? {};
      const ids = [...(uploads.get(archive ?? "")?.keys() ?? [])];
      return digits !== undefined && ids.some((id) => id.startsWith(digits));
    },
  };
}

function end(upload: ReceivedFile | AbortController, why: string): void {
  const stop = upload instanceof AbortController ? upload : upload.composing?.stop;
  stop?.abort(new StoreConflict(`Cannot store the archive: ${why}`));
}
