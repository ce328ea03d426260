import { pipeline } from "node:stream";
import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import { ArchiveError, quote } from "../../../crds/archive/archive-error.ts";
import type { ArchiveLimits } from "../../../crds/archive/archive-limits.ts";
import { overlayRoots } from "../../../crds/archive/overlay-roots.ts";
import { isOfZlib } from "../../../crds/archive/packed-tar.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import type { OpenArchive, StoreCall } from "../../../crds/snapshots/snapshot-store.ts";
import { linkSignals } from "../../../crds/waits.ts";
import { feedCommand } from "../streams/feed-command.ts";
import { END, frames } from "../streams/frames.ts";
import { asked, type PrestartedCommand } from "../streams/prestarted-commands.ts";
import { type Folders, readFolders } from "./folders.ts";
import { decompress, type OverlayPod, POD_PACE } from "./overlay-pod.ts";
import { type PodTime, readPodTime } from "./pod-time.ts";
import {
  RESTORE_BEGIN,
  RESTORE_END,
  RESTORE_SHELL,
  RESTORE_STATE,
  RESTORE_TAR,
  restoreCommand,
} from "./restore-command.ts";
import { createRestorePlan } from "./restore-plan.ts";
import { createEntryList, type RestoredFiles } from "./unchanged-files.ts";

export interface RestoreOverlayOptions {
  readonly exec: Exec;
  /** Opens the archive, as `SnapshotStore` does; undefined if it does not exist. */
  readonly open: (call: StoreCall) => Promise<OpenArchive | undefined>;
  /** The workload's container, or the init container that waits for the restore. */
  readonly pod: OverlayPod;
  readonly overlayDirs: readonly string[];
  readonly limits: ArchiveLimits;
  /** Whether the init container waits. Then the workload starts only after all files are restored. */
  readonly opensGate: boolean;
  /**
   * Called with the restored files. Give it only if no program has begun that could change them. It is not called for a
   * small archive if the pod waits for nothing else.
   * @default not called
   */
  readonly onRestored?: ((files: RestoredFiles) => void) | undefined;
  /** Takes the pod's prestarted command. @default a command is started */
  readonly takePrestarted?: ((signal: AbortSignal) => Promise<PrestartedCommand | undefined>) | undefined;
  readonly signal: AbortSignal;
  /** Called with the number of bytes of files sent to the pod. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** Milliseconds for the whole restore. */
  readonly timeoutMs: number;
}

/** An archive that was restored. */
export interface RestoredSnapshot extends SnapshotMetadata {
  /** Files that were not restored, since the archive has no content of them; at most 100. */
  readonly lost?: readonly string[];
}

const PIECE_BYTES = 256 * 1024;
const MOST_LOST = 100;
/** Of a compressed archive. To save a smaller one whole costs less than the claim would wait. */
const SMALL_BYTES = 4 * 1024 * 1024;
/** Of about ten thousand folders. If there are more, the next save reads all files. */
export const MOST_RESTORE_OUTPUT_BYTES = 1024 * 1024;

/**
 * Restores an archive into the overlay directories of a pod, and deletes what was in them before.
 *
 * Each entry is checked before the pod gets it, and the store checks the SHA-256 at the end of the archive. Only then
 * does the pod learn that all files are restored. If this fails, the pod must not be given to its tenant.
 *
 * An earlier version could save a hard link without its file: the link is left out, since nothing else is lost.
 *
 * @returns the metadata of the archive; undefined if there is none
 * @throws ArchiveError if the archive is not what was saved, or may not be restored
 * @throws ExecFailure if the archive cannot be unpacked; the message has the command's output
 * @throws as `Exec` does
 */
export async function restoreOverlay(options: RestoreOverlayOptions): Promise<RestoredSnapshot | undefined> {
  const { exec, open, pod, overlayDirs, limits, opensGate, onRestored, takePrestarted, timeoutMs, onBytes } = options;
  const roots = overlayRoots(overlayDirs);
  const stop = linkSignals(options.signal);
  const { signal } = stop;
  const plan = createRestorePlan({ roots });
  const opened = open({ signal, timeoutMs });
  opened.catch(ignore);
  let isWhole = false;
  async function* stored(): AsyncGenerator<Uint8Array> {
    const found = await opened;
    if (found !== undefined) yield* inPieces(found.content);
    isWhole = found !== undefined;
  }
  const entries = onRestored && createEntryList(roots);
  let at: PodTime | undefined;
  let folders: Folders | undefined;
  const lost: string[] = [];
  const check = createArchiveCheck({
    ...{ roots, limits },
    onDangling({ path }) {
      if (lost.length < MOST_LOST) lost.push(quote(path));
    },
    rewrite(entry) {
      entries?.add(entry);
      return plan.rewrite(entry);
    },
  });
  const checked = frames(pipeline(stored(), decompress(), check.stream, ignore));
  // While the command is being asked, read the first frame, the only one of a small archive.
  const first = checked.next();
  first.catch(ignore);

  function counted(frame: Uint8Array): Uint8Array {
    onBytes?.(frame.length);
    return frame;
  }

  async function* input(): AsyncGenerator<Uint8Array> {
    const found = await opened;
    if (found === undefined) throw new NoArchive();
    const { sizeBytes } = found.metadata;
    yield RESTORE_BEGIN;
    yield RESTORE_TAR;
    const { value } = await first;
    if (value !== undefined) yield counted(value);
    for await (const frame of checked) yield counted(frame);
    // Data after the end of the compressed archive is an error.
    if (!isWhole) throw new ArchiveError("Corrupt", "it goes on behind its end");
    yield END;
    if (plan.hasDirectories()) yield* part(RESTORE_TAR, plan.directoryTimes());
    if (plan.hasModes()) yield* part(RESTORE_SHELL, plan.modeCommands());
    if (onRestored !== undefined && (opensGate || sizeBytes >= SMALL_BYTES)) yield RESTORE_STATE;
    yield RESTORE_END;
  }

  function onOutput(output: string): void {
    at = readPodTime(output);
    if (at !== undefined) folders ??= readFolders(output);
  }

  try {
    const command = await takePrestarted?.(signal);
    if (command === undefined) {
      const target = restoreCommand(pod, { roots, opensGate });
      const fed = { exec, target, what: "restore the files", input: asked(input()), minInput: POD_PACE };
      await feedCommand({ ...fed, ...{ signal, timeoutMs, onOutput, mostOutputBytes: MOST_RESTORE_OUTPUT_BYTES } });
    } else {
      await command.feed({ input: input(), signal, timeoutMs, onOutput });
    }
    const digest = entries?.digest();
    if (digest !== undefined && at !== undefined) onRestored?.({ digest, at, folders });
    const metadata = (await opened)?.metadata;
    return metadata && (lost.length > 0 ? { ...metadata, lost } : metadata);
  } catch (error) {
    stop.abort(error);
    if (error instanceof NoArchive) return undefined;
    throw corrupt(error);
  } finally {
    opened.then((found) => found?.close(), ignore);
    stop.close();
  }
}

/**
 * Joins small pieces. The decompression of each piece is a task of Node's thread pool, which costs more than the work
 * itself: pieces of 16 KiB, as an encrypted connection delivers them, take 3 ms per MiB.
 */
async function* inPieces(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of source) {
    parts.push(part);
    bytes += part.length;
    if (bytes < PIECE_BYTES) continue;
    yield Buffer.concat(parts, bytes);
    parts = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(parts, bytes);
}

async function* part(kind: Buffer, content: Iterable<Buffer>): AsyncGenerator<Uint8Array> {
  yield kind;
  yield* frames(content);
  yield END;
}

class NoArchive extends Error {
  override readonly message = "there is no archive";
}

/** An error of zlib as one of the archive. */
function corrupt(error: unknown): unknown {
  if (!isOfZlib(error)) return error;
  return new ArchiveError("Corrupt", `it cannot be decompressed: ${error.message}`, { cause: error });
}

function ignore(): void {
  // The failure is thrown where it is awaited.
}
