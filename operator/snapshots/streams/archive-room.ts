import { Transform } from "node:stream";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";

/** The limits of archives on the snapshots volume. */
export interface ArchiveRoom {
  /** The limit of one archive, compressed. */
  readonly maxArchiveBytes: number;
  /** The requested size of the volume; it may be a folder of a larger disk. */
  readonly volumeBytes: number;
  /** Whether the archive is a checkpoint. @default false */
  readonly isCheckpoint?: boolean;
}

/** Larger archives leave a twentieth of the volume free for small ones. */
const SMALL_BYTES = 16 * 1024 * 1024;
const KEPT_SHARE = 20;
/** Larger checkpoints leave a quarter of it for releases, which cannot do without. */
const KEPT_BY_CHECKPOINTS = 4;
const LOOK_EVERY_BYTES = 32 * 1024 * 1024;

/** @throws ArchiveError if an archive is larger than one may be */
export function checkArchiveSize(bytes: number, { maxArchiveBytes }: ArchiveRoom): void {
  if (bytes <= maxArchiveBytes) return;
  const what = `it takes more than ${shown(maxArchiveBytes)}`;
  throw new ArchiveError("TooLarge", `${what}, the limit of one archive (TENANCY_SNAPSHOT_LIMIT)`);
}

/**
 * Passes an archive on until it exceeds its limit, so that one large archive fails before it takes the room of all
 * others.
 *
 * @param options.space returns the present space of the volume, which includes the received part of this archive;
 *   undefined if the store has no bound
 * @param options.moreBytes that the store adds to the archive at its end. @default 0
 * @throws ArchiveError through the stream
 */
export function createRoomCheck(
  room: ArchiveRoom,
  { space, moreBytes = 0 }: { space: () => ReturnType<SnapshotStore["space"]>; moreBytes?: number | undefined },
): Transform {
  const { maxArchiveBytes, volumeBytes, isCheckpoint = false } = room;
  let bytes = 0;
  let nextLook = SMALL_BYTES - moreBytes;

  async function check(): Promise<void> {
    checkArchiveSize(bytes, room);
    if (bytes <= nextLook) return;
    nextLook = bytes + LOOK_EVERY_BYTES;
    const found = await space();
    if (found === undefined) return;
    const { freeBytes, totalBytes } = found;
    const kept = Math.min(totalBytes, volumeBytes) / (isCheckpoint ? KEPT_BY_CHECKPOINTS : KEPT_SHARE);
    if (freeBytes - moreBytes >= kept) return;
    const others = isCheckpoint ? "releases" : `archives of up to ${shown(SMALL_BYTES)}`;
    const why = `the snapshots volume has ${shown(freeBytes)} left, of which ${shown(kept)} are for ${others}`;
    throw new ArchiveError("TooLarge", `${why}: enlarge the volume, or delete snapshots`);
  }

  return new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      bytes += chunk.length;
      if (bytes <= Math.min(maxArchiveBytes, nextLook)) callback(null, chunk);
      else
        check().then(
          () => callback(null, chunk),
          (error: Error) => callback(error),
        );
    },
  });
}

function shown(bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)} MiB`;
}
