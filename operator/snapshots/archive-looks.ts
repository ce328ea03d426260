import { ArchiveError } from "../../crds/archive/archive-error.ts";
import type { Log } from "../../crds/log.ts";
import { allArchives, isOfSession } from "../../crds/snapshots/kept-versions.ts";
import { archiveDigits, type SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import {
  type KeptSnapshots,
  type SnapshotStore,
  type StoreCall,
  StoreError,
} from "../../crds/snapshots/snapshot-store.ts";
import type { StoreMark } from "../../crds/snapshots/store-mark.ts";

/** Looks up archives. It never mistakes a replaced or emptied store for one without archives. */
export interface ArchiveLooks {
  /**
   * @throws StoreError if the store had its mark before and has none now
   *   (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-trusted)
   * @throws as `SnapshotStore` does
   */
  look(key: SnapshotKey, call: StoreCall): Promise<KeptSnapshots>;
  /**
   * The metadata of one archive; undefined if there is none.
   *
   * @param call.version of the archive, by its SHA-256 or the first 16 digits of it. @default the newest
   * @throws ArchiveError if the archive does not match its metadata, or the version does not exist
   */
  find(
    key: SnapshotKey,
    call: StoreCall & { readonly version?: string | undefined },
  ): Promise<SnapshotMetadata | undefined>;
  /** The checkpoint of a session; undefined if there is none. */
  findCheckpoint(
    key: SnapshotKey,
    call: StoreCall & { readonly session: string },
  ): Promise<SnapshotMetadata | undefined>;
  /**
   * Records that the store has its mark. Do not wait for it: if it fails, the next call tries again.
   */
  noteMark(): void;
  /** Forgets the mark, if the store is recreated. */
  forgetMark(): void;
}

export function createArchiveLooks(options: {
  archives: Pick<SnapshotStore, "look">;
  mark: StoreMark;
  log?: Log | undefined;
}): ArchiveLooks {
  const { archives, mark, log } = options;
  let isMarked = false;
  let isRemembered = false;

  function noteMark(): void {
    isMarked = true;
    if (isRemembered) return;
    isRemembered = true;
    mark.remember().catch((error: unknown) => {
      isRemembered = false;
      log?.warn({ error }, "cannot record that the snapshots store has its mark");
    });
  }

  async function look(key: SnapshotKey, call: StoreCall): Promise<KeptSnapshots> {
    const kept = await archives.look(key, call);
    if (kept.state === "unmarked" && (isMarked || (await mark.wasSeen(call.signal)))) {
      const why = `the mark that was in the store is gone, so the store was replaced or emptied. If that was intended, ${mark.advice}`;
      throw new StoreError(`Cannot look at the archive: ${why}`, { isTransient: false });
    }
    // An archive is no proof of a mark: an earlier version without marks may have saved it.
    if (kept.state === "none") noteMark();
    return kept;
  }

  return {
    look,
    async find(key, { version, ...call }) {
      const { state, ...kept } = await look(key, call);
      const found =
        version === undefined ? kept.newest : allArchives(kept).find(({ sha256 }) => sha256.startsWith(version));
      if (found !== undefined) return found;
      if (version !== undefined) throw noVersion(version, kept);
      if (state !== "unrecorded") return undefined;
      throw new ArchiveError("Corrupt", "the archive has changed: it does not match its metadata");
    },
    async findCheckpoint(key, { session, ...call }) {
      return allArchives(await look(key, call)).find((one) => isOfSession(session, one));
    },
    noteMark,
    forgetMark() {
      isMarked = false;
      isRemembered = false;
    },
  };
}

function noVersion(version: string, { newest, versions }: Pick<KeptSnapshots, "newest" | "versions">): ArchiveError {
  const shown = ({ sha256, createdAt }: SnapshotMetadata): string => `${archiveDigits(sha256)} of ${createdAt}`;
  const there = [...(newest === undefined ? [] : [`${shown(newest)} (the newest)`]), ...versions.map(shown)];
  const has = there.length === 0 ? "there is none" : `there are ${there.join(", ")}`;
  return new ArchiveError("NoVersion", `there is no version ${version} of it: ${has}`);
}
