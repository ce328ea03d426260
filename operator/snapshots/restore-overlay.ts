import { createHash } from "node:crypto";
import { pipeline, Transform } from "node:stream";
import { createArchiveCheck } from "../../crds/archive/archive-check.ts";
import { ArchiveError } from "../../crds/archive/archive-error.ts";
import type { ArchiveLimits } from "../../crds/archive/archive-limits.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { linkSignals } from "../../crds/waits.ts";
import type { ArchiveStore } from "./archive-store.ts";
import { feedCommand } from "./feed-command.ts";
import { END, frames } from "./frames.ts";
import { decompress, type OverlayPod, overlayRoots, POD_PACE } from "./overlay-pod.ts";
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

export interface RestoreOverlayOptions {
  readonly exec: Exec;
  readonly store: Pick<ArchiveStore, "read">;
  readonly key: SnapshotKey;
  /** Which archive. @default the newest */
  readonly sha256?: string | undefined;
  /** The workload's container, or the init container that waits for this. */
  readonly pod: OverlayPod;
  readonly overlayDirs: readonly string[];
  readonly limits: ArchiveLimits;
  /** Whether the init container waits: it then lets the workload start when all is restored, and never else. */
  readonly opensGate: boolean;
  /** Takes the command that waits in the pod already. @default one is started */
  readonly takePrestarted?: ((signal: AbortSignal) => Promise<PrestartedRestore | undefined>) | undefined;
  readonly signal: AbortSignal;
  /** Milliseconds for the whole of it. */
  readonly timeoutMs: number;
}

/**
 * Restores an archive into the overlay directories of a pod: what was in them goes, what is in the archive comes.
 *
 * The archive is checked on its way, entry by entry before the pod gets it, and its SHA-256 at its end; only then does
 * the pod learn that all is restored. The directories are emptied before it is known whether there is an archive, so
 * ask its store first. A pod for which this fails must not be given to its tenant.
 *
 * @returns the metadata of the archive; undefined when there is none
 * @throws ArchiveError when the archive is not what was saved, or may not be restored
 * @throws ExecFailure when it cannot be unpacked, or the store fails; the message has its words
 * @throws as `Exec` does
 */
export async function restoreOverlay(options: RestoreOverlayOptions): Promise<SnapshotMetadata | undefined> {
  const { exec, store, key, sha256, pod, overlayDirs, limits, opensGate, takePrestarted, timeoutMs } = options;
  const roots = overlayRoots(overlayDirs);
  const stop = linkSignals(options.signal);
  const { signal } = stop;
  const plan = createRestorePlan({ roots, maxRememberedBytes: limits.maxRememberedBytes });
  const hash = createHash("sha256");
  const digest = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      hash.update(chunk);
      callback(null, chunk);
    },
  });
  const check = createArchiveCheck({ roots, limits, rewrite: plan.rewrite });
  const archive = pipeline(digest, decompress(), check.stream, ignore);

  const read = store.read(key, digest, { sha256, signal, timeoutMs }).then((recorded) => {
    if (recorded === undefined) throw new NoArchive();
    return recorded;
  });
  read.catch(ignore);
  let metadata: SnapshotMetadata | undefined;
  const checked = frames(archive);
  // Read the first frame, which is a small archive's only one, while the command is asked.
  const first = checked.next();
  first.catch(ignore);

  async function* input(): AsyncGenerator<Uint8Array> {
    yield RESTORE_BEGIN;
    yield RESTORE_TAR;
    const { value } = await first;
    if (value !== undefined) yield value;
    yield* checked;
    const recorded = await read;
    const sum = hash.digest("hex");
    metadata = recorded.find((record) => record.sha256 === sum && sum === (sha256 ?? sum));
    if (metadata === undefined) throw new ArchiveError("Corrupt", "its SHA-256 is not the one that was recorded");
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
      await feedCommand({ ...fed, signal, timeoutMs });
    } else {
      await command.feed({ input: input(), signal, timeoutMs });
    }
    return metadata;
  } catch (error) {
    stop.abort(error);
    digest.destroy();
    const first = await read.then(
      () => error,
      (cause: unknown) => (cause instanceof NoArchive ? cause : error),
    );
    if (first instanceof NoArchive) return undefined;
    throw corrupt(first);
  } finally {
    stop.close();
  }
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
