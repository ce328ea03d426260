import { ArchiveError } from "../../crds/archive/archive-error.ts";
import type { Log } from "../../crds/log.ts";
import { readArchiveTable } from "../../crds/snapshots/read-table.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import type { OpenArchive, SnapshotStore, StoreCall } from "../../crds/snapshots/snapshot-store.ts";
import { type ChangeList, createChangeList } from "./pods/changed-files.ts";
import type { BaseArchive } from "./pods/save-overlay.ts";
import type { ArchivedFiles } from "./pods/unchanged-files.ts";

/** An archive of more entries is saved whole: to compare one takes about 500 bytes of memory for each. */
const MOST_COMPARED = 50_000;
/** Of all pods together: 16 MiB. The files of further pods are saved whole. */
const MOST_FOLDERS = 2_000_000;
const TABLE_LIMIT_MS = 20_000;

/** The files of a pod at one moment, and the archive that has them. */
export interface KnownArchive extends ArchivedFiles {
  readonly sha256: string;
  /** Of files that were restored: a digest of their metadata. */
  readonly digest?: string;
}

/** What was restored into pods before their programs began, or saved from them since. A save compares with it. */
export interface KnownArchives {
  /** @param uid of the pod */
  remember(uid: string, archive: KnownArchive): void;
  of(uid: string): KnownArchive | undefined;
  forget(uid: string): void;
  /**
   * The archive as the base of the next one; undefined if it has no table that can be read now, or too many files.
   *
   * @param options.files that it has
   */
  baseOf(
    key: SnapshotKey,
    metadata: SnapshotMetadata,
    options: { files: ArchivedFiles; roots: readonly string[]; signal: AbortSignal },
  ): Promise<(BaseArchive & { readonly list: ChangeList }) | undefined>;
}

/** @param options.open opens an archive, and checks that it is the one that was asked for */
export function createKnownArchives(options: {
  archives: SnapshotStore;
  open: (key: SnapshotKey, call: StoreCall & { sha256: string }) => Promise<OpenArchive | undefined>;
  timeoutMs: number;
  log: Log | undefined;
}): KnownArchives {
  const { archives, open, timeoutMs, log } = options;
  const known = new Map<string, KnownArchive>();
  /** Of all of them. */
  let folderCount = 0;

  async function* contentOf(key: SnapshotKey, call: StoreCall & { sha256: string }): AsyncGenerator<Uint8Array> {
    const opened = await open(key, call);
    if (opened === undefined) throw new ArchiveError("NoVersion", "the archive that has all else does not exist");
    try {
      yield* opened.content;
    } finally {
      opened.close();
    }
  }

  function forget(uid: string): void {
    folderCount -= known.get(uid)?.folders?.count ?? 0;
    known.delete(uid);
  }

  return {
    remember(uid, archive) {
      forget(uid);
      const count = archive.folders?.count ?? 0;
      const hasRoom = folderCount + count <= MOST_FOLDERS;
      known.set(uid, hasRoom ? archive : { ...archive, folders: undefined });
      if (hasRoom) folderCount += count;
    },
    of: (uid) => known.get(uid),
    forget,
    async baseOf(key, { table: mark, sha256, sizeBytes, entries }, { files, roots, signal }) {
      const { folders } = files;
      const onRefusal = (why: unknown): void => {
        const message = "an archive is not continued: all files of the pod are saved";
        if (typeof why === "string") log?.info({ ...key, sha256, why }, message);
        else log?.warn({ ...key, sha256, error: why }, message);
      };
      const refuse = (why: string): undefined => void onRefusal(why);
      if (mark === undefined) return refuse("it has no table");
      if (folders === undefined) return refuse("the inodes of its folders are not known");
      if (entries > MOST_COMPARED) return refuse("it has too many files");
      try {
        const call = { signal, timeoutMs: TABLE_LIMIT_MS };
        const table = await readArchiveTable(archives, { ...key, sha256, sizeBytes, table: mark }, call);
        if (table === undefined) return refuse("it is gone");
        const content = contentOf(key, { sha256, signal, timeoutMs });
        const archive = archives.composes ? undefined : { table, content };
        const list = createChangeList({ ...files, table, folders }, { roots });
        return { list, changes: list.changes, sizeBytes, archive, onRefusal };
      } catch (error) {
        if (signal.aborted) throw error;
        onRefusal(error);
        return undefined;
      }
    },
  };
}
