import { pipeline } from "node:stream";
import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import { ArchiveError, quote } from "../../../crds/archive/archive-error.ts";
import type { ArchiveLimits } from "../../../crds/archive/archive-limits.ts";
import { overlayRoots } from "../../../crds/archive/overlay-roots.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import type { OpenArchive, StoreCall } from "../../../crds/snapshots/snapshot-store.ts";
import { linkSignals } from "../../../crds/waits.ts";
import { feedCommand } from "../streams/feed-command.ts";
import { END, frames } from "../streams/frames.ts";
import { decompress, type OverlayPod, POD_PACE } from "./overlay-pod.ts";
import { type PodTime, readPodTime } from "./pod-time.ts";
import type { PrestartedRestore } from "./prestarted-restores.ts";
import {
  RESTORE_ASK,
  RESTORE_BEGIN,
  RESTORE_END,
  RESTORE_SHELL,
  RESTORE_TAR,
  restoreCommand,
} from "./restore-command.ts";
import { createRestorePlan } from "./restore-plan.ts";
import { createEntryList, type RestoredFiles } from "./unchanged-files.ts";

export interface RestoreOverlayOptions {
  readonly exec: Exec;
  /** Opens the archive, as `SnapshotStore` does; undefined when it is not there. */
  readonly open: (call: StoreCall) => Promise<OpenArchive | undefined>;
  /** The workload's container, or the init container that waits for this. */
  readonly pod: OverlayPod;
  readonly overlayDirs: readonly string[];
  readonly limits: ArchiveLimits;
  /** Whether the init container waits: it then lets the workload start when all is restored, and never else. */
  readonly opensGate: boolean;
  /**
   * Called with what is restored, where the workload starts only after that, so that nothing else has changed it.
   * @default nobody wants to know
   */
  readonly onRestored?: ((files: RestoredFiles) => void) | undefined;
  /** Takes the command that waits in the pod already. @default one is started */
  readonly takePrestarted?: ((signal: AbortSignal) => Promise<PrestartedRestore | undefined>) | undefined;
  readonly signal: AbortSignal;
  /** Called with how many bytes of files have gone to the pod. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** Milliseconds for the whole of it. */
  readonly timeoutMs: number;
}

/** An archive that was restored. */
export interface RestoredSnapshot extends SnapshotMetadata {
  /** Names of files that it has without a content, so that they could not be restored; some of them if they are many. */
  readonly lost?: readonly string[];
}

const PIECE_BYTES = 256 * 1024;
const MOST_LOST = 100;

/**
 * Restores an archive into the overlay directories of a pod: what was in them goes, what is in the archive comes.
 *
 * The archive is checked on its way, entry by entry before the pod gets it, and its SHA-256 at its end by the store;
 * only then does the pod learn that all is restored. A pod for which this fails must not be given to its tenant.
 *
 * An earlier version could save a hard link without the file: the link is left out, since nothing else is lost.
 *
 * @returns the metadata of the archive; undefined when there is none
 * @throws ArchiveError when the archive is not what was saved, or may not be restored
 * @throws ExecFailure when it cannot be unpacked, or the store fails; the message has its words
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
  const entries = opensGate && onRestored !== undefined ? createEntryList(roots) : undefined;
  let at: PodTime | undefined;
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
  // Read the first frame, which is a small archive's only one, while the command is asked.
  const first = checked.next();
  first.catch(ignore);

  function counted(frame: Uint8Array): Uint8Array {
    onBytes?.(frame.length);
    return frame;
  }

  async function* input(): AsyncGenerator<Uint8Array> {
    if ((await opened) === undefined) throw new NoArchive();
    yield RESTORE_BEGIN;
    yield RESTORE_TAR;
    const { value } = await first;
    if (value !== undefined) yield counted(value);
    for await (const frame of checked) yield counted(frame);
    // What follows the end of the compressed archive is checked too.
    if (!isWhole) throw new ArchiveError("Corrupt", "it goes on behind its end");
    yield END;
    if (plan.hasDirectories()) yield* part(RESTORE_TAR, plan.directoryTimes());
    if (plan.hasModes()) yield* part(RESTORE_SHELL, plan.modeCommands());
    yield RESTORE_END;
  }

  try {
    const command = await takePrestarted?.(signal);
    if (command === undefined) {
      const target = restoreCommand(pod, { roots, opensGate });
      const fed = { exec, target, what: "restore the files", input: asked(input()), minInput: POD_PACE };
      await feedCommand({
        ...{ ...fed, signal, timeoutMs },
        onOutput(output) {
          at = readPodTime(output);
        },
      });
    } else {
      await command.feed({ input: input(), signal, timeoutMs });
    }
    const digest = entries?.digest();
    if (digest !== undefined && at !== undefined) onRestored?.({ digest, at });
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
 * Joins what comes in small pieces, since each is a turn of Node's thread pool to be decompressed, which takes longer
 * than the work: of 16 KiB, as they come from an encrypted connection, 3 ms a MiB.
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

async function* asked(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield RESTORE_ASK;
  yield* input;
}

async function* part(kind: Buffer, content: Iterable<Buffer>): AsyncGenerator<Uint8Array> {
  yield kind;
  yield* frames(content);
  yield END;
}

class NoArchive extends Error {
  override readonly message = "there is no archive";
}

/** What zlib says of an archive that it cannot read. */
function corrupt(error: unknown): unknown {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  if (code === undefined || !/^Z_/.test(code)) return error;
  return new ArchiveError("Corrupt", `it cannot be decompressed: ${(error as Error).message}`, { cause: error });
}

function ignore(): void {
  // The failure is thrown where it is waited for.
}
