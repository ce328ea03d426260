import { pipeline } from "node:stream";
import type { Exec } from "../../crds/client/exec.ts";
import { awaitReceipt, createReceipt } from "../../crds/snapshots/receipt.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { createArchiveCheck } from "./archive-check.ts";
import { ArchiveError } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import type { ArchiveStore } from "./archive-store.ts";
import { compress } from "./compression.ts";
import { ExecFailure } from "./exec-failure.ts";
import { type OverlayPod, overlayCommand } from "./overlay-pod.ts";
import { overlayRoots } from "./overlay-roots.ts";
import { createLineTaker } from "./take-lines.ts";

export interface SaveOverlayOptions {
  readonly exec: Exec;
  readonly store: Pick<ArchiveStore, "write">;
  readonly key: SnapshotKey;
  readonly pod: OverlayPod;
  /** Those that the pod was made with. */
  readonly overlayDirs: readonly string[];
  readonly limits: ArchiveLimits;
  readonly signal: AbortSignal;
  /** Milliseconds for the whole of it. */
  readonly timeoutMs: number;
  /** @default Date.now */
  readonly now?: (() => number) | undefined;
}

/** tar writes something all the time; one that does not is on a node that is gone. */
const maxSilenceMs = 60_000;

const script = `b="$1"; cd "$2" || exit 1; shift 2
echo "$("$b" id -u) $("$b" id -g)"
"$b" tar c -f - -- "$@" || exit $?
${awaitReceipt}`;

/**
 * Saves the overlay directories of a running pod, as one archive in the place of the one before.
 *
 * tar runs as the workload's own user. Its archive is checked and compressed on its way to the store (docs/decisions/601), and what is
 * stored is whole or nothing. Sockets and named pipes are left out: nothing is in them.
 *
 * @throws ArchiveError when the archive may not be, or is cut off
 * @throws ExecFailure when tar fails or the store does; the message has its words
 * @throws as `Exec` does
 */
export async function saveOverlay(options: SaveOverlayOptions): Promise<SnapshotMetadata> {
  const { exec, store, key, pod, overlayDirs, limits, timeoutMs, now = Date.now } = options;
  const roots = overlayRoots(overlayDirs);
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const owner = createLineTaker(() => true);
  const receipt = createReceipt();
  const check = createArchiveCheck({ roots, limits, leaveOutPipes: true, onEnd: receipt.give });
  const finished = pipeline(owner.stream, check.stream, compress(), ignore);

  const target = overlayCommand(pod, script, roots);
  const source = exec({ ...target, stdin: receipt.stdin, stdout: owner.stream, signal, timeoutMs, maxSilenceMs }).then(
    (result) => {
      if (result.exitCode !== 0 && !onlyVanished(result.stderr)) {
        const said = result.stderr.trim() || `exit code ${result.exitCode}`;
        throw new ExecFailure(`Cannot save the overlay directories: ${said}`, { exitCode: result.exitCode });
      }
      owner.stream.end();
    },
  );
  const failed = source.catch((error: unknown) => {
    // What the archive is refused for is the reason; that its stream then ended is not.
    owner.stream.destroy(check.stream.errored ?? owner.stream.errored ?? (error as Error));
    throw owner.stream.errored ?? error;
  });
  failed.catch(ignore);

  try {
    return await store.write(key, finished, {
      signal,
      timeoutMs,
      describe: () => ({
        ...userIn(owner.lines()?.[0]),
        createdAt: new Date(now()).toISOString(),
        entries: check.contents.entries,
        contentBytes: check.contents.bytes,
        overlayDirs,
      }),
    });
  } catch (error) {
    stop.abort(error);
    owner.stream.destroy();
    await failed;
    throw error;
  }
}

/** Whether all that went wrong is that files were deleted while they were read, which leaves nothing of them to save. */
function onlyVanished(stderr: string): boolean {
  const lines = stderr.trim().split("\n");
  return lines.every((line) =>
    /: No such file or directory$|: socket ignored$|error exit delayed from previous errors/.test(line),
  );
}

function userIn(line: string | undefined): { uid: number; gid: number } {
  const [, uid, gid] = /^(\d+) (\d+)$/.exec(line ?? "") ?? [];
  if (uid === undefined || gid === undefined) throw new ArchiveError("Corrupt", "it does not say whose it is");
  return { uid: Number(uid), gid: Number(gid) };
}

function ignore(): void {
  // The failure is thrown where it is waited for.
}
