import { pipeline } from "node:stream";
import { createArchiveCheck } from "../../crds/archive/archive-check.ts";
import { ArchiveError } from "../../crds/archive/archive-error.ts";
import type { ArchiveLimits } from "../../crds/archive/archive-limits.ts";
import { overlayRoots } from "../../crds/archive/overlay-roots.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import { awaitAcknowledgement, createAcknowledgement } from "../../crds/snapshots/acknowledgement.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import type { SnapshotDescription, SnapshotStore, StoreCall } from "../../crds/snapshots/snapshot-store.ts";
import { linkSignals } from "../../crds/waits.ts";
import { type ArchiveRoom, createRoomCheck } from "./archive-room.ts";
import { ExecFailure } from "./exec-output.ts";
import { gzip } from "./gzip.ts";
import { type OverlayPod, overlayCommand, POD_PACE } from "./overlay-pod.ts";
import { createLineTaker } from "./take-lines.ts";

export interface SaveOverlayOptions {
  readonly exec: Exec;
  /**
   * Stores the archive. What that fails with fails the call, and a failure of the archive fails it.
   *
   * @param call.describe asked at the end of the archive, and throws unless all of it is good
   */
  readonly write: (
    archive: AsyncIterable<Uint8Array>,
    call: StoreCall & { readonly describe: () => SnapshotDescription },
  ) => Promise<SnapshotMetadata>;
  /** What the store has, where it has a bound. */
  readonly space: SnapshotStore["space"];
  /** @default the archive takes what there is */
  readonly room?: ArchiveRoom | undefined;
  readonly pod: OverlayPod;
  /** Those that the pod was made with. */
  readonly overlayDirs: readonly string[];
  /** Names these in the pod. @default none that it has is another */
  readonly overlayId?: string | undefined;
  readonly limits: ArchiveLimits;
  readonly signal: AbortSignal;
  /** Milliseconds for the whole of it. */
  readonly timeoutMs: number;
  /** @default Date.now */
  readonly now?: (() => number) | undefined;
}

/** tar writes something all the time; one that does not is on a node that is gone. */
const maxSilenceMs = 60_000;

const SPACE_LIMIT_MS = 60_000;

const failure = "Cannot save the overlay directories";

/** The mark shows ten lines of 500 bytes. */
const maxMarkCharacters = 16 * 1024;

/** dd fills its last block up with zeros, so that its count of blocks is one of bytes. */
const blockBytes = 64 * 1024;

// What tar complains of is counted here, since some of it may be lost on its way. A file may vanish between the listing
// of its directory and its turn, and tar says then that there is none. Whatever else it says is a failure, and so is an
// end that tar does not announce.
const script = `b="$1"; cd "$2" || exit 1; shift 2; export LC_ALL=C
id="\${b%/*}/overlay-id"
echo "$("$b" id -u) $("$b" id -g) $([ ! -r "$id" ] || "$b" cat "$id")"
{
  report="$(
    {
      { "$b" tar c -f - -- "$@"; echo "tar ended with $?" >&2; } |
        "$b" dd bs=${blockBytes} iflag=fullblock conv=sync >&3
    } 2>&1 | "$b" awk '
      /^tar: error exit delayed from previous errors$/ { orderly++; next }
      /^tar: .*: No such file or directory$/ { vanished++; next }
      /^tar: .*: socket ignored$/ { next }
      /^tar ended with [0-9]+$/ { code = $4; ended = 1; next }
      /^[0-9]+[+][0-9]+ records in$/ { split($1, records, "+"); blocks = records[1] + records[2]; next }
      /^[0-9]+[+][0-9]+ records out$|^[0-9]+ bytes .*copied/ { next }
      { failures++; if (failures <= 10) shown = shown "\\n" substr($0, 1, 500) }
      END {
        good = ended && (code == 0 || code == 1 && orderly == 1 && vanished > 0 && failures == 0)
        if (good) print "saved " blocks " " vanished + 0
        else print "failed" shown (failures > 10 ? "\\nand " failures - 10 " more" : "") (code == 1 ? "" : "\\ntar ended with " code)
      }'
  )"
} 3>&1
echo "$report"
echo end
case "$report" in
  "saved "*) ${awaitAcknowledgement} ;;
  *) echo "$report" >&2; exit 1 ;;
esac`;

/**
 * Saves the overlay directories of a running pod, as one archive in the place of the one before.
 *
 * tar runs as the workload's own user. Its archive is checked and compressed on its way to the store
 * (docs/decisions/snapshots.md#archives-pass-through-the-operator), and what is stored is whole or nothing. Sockets and
 * named pipes are left out: nothing is in them.
 *
 * The archive is good when the pod says so behind it, with the number of bytes that it has sent: a failure is never
 * taken for a success because the words for it are missing.
 *
 * @throws ArchiveError when the archive may not be, or is cut off, or the directories are others than those wanted
 * @throws ExecFailure when tar fails or the store does; the message has its words
 * @throws as `Exec` does
 */
export async function saveOverlay(options: SaveOverlayOptions): Promise<SnapshotMetadata> {
  const { exec, write, pod, overlayDirs, overlayId, room, limits, timeoutMs, now = Date.now } = options;
  const roots = overlayRoots(overlayDirs);
  const stop = linkSignals(options.signal);
  const { signal } = stop;
  const space = () => options.space({ signal, timeoutMs: SPACE_LIMIT_MS });
  const owner = createLineTaker(() => true);
  const acknowledgement = createAcknowledgement();
  const missing = new Set(roots);
  let mark = "";
  const check = createArchiveCheck({
    ...{ roots, limits, leaveOutPipes: true },
    rewrite(entry) {
      missing.delete(entry.path);
      return entry;
    },
    onTrailer(chunk) {
      mark = (mark + chunk.toString("utf8")).slice(0, maxMarkCharacters);
      if (mark.endsWith("\nend\n")) acknowledgement.send();
    },
  });
  const compressed = gzip(pipeline(owner.stream, check.stream, ignore));
  const finished = room === undefined ? compressed : pipeline(compressed, createRoomCheck(room, { space }), ignore);

  const target = overlayCommand(pod, script, roots);
  const streams = { stdin: acknowledgement.stdin, stdout: owner.stream, minOutput: POD_PACE };
  const source = exec({ ...target, ...streams, signal, timeoutMs, maxSilenceMs }).then(({ exitCode, stderr }) => {
    checkMark({ mark, exitCode, stderr, bytesIn: check.contents.bytesIn });
    const [gone] = missing;
    if (gone !== undefined) {
      throw new ExecFailure(`${failure}: ${Buffer.from(gone, "latin1")} was not there`, { exitCode });
    }
    owner.stream.end();
  });
  const failed = source.catch((error: unknown) => {
    // Throw why the archive was refused, and not that its stream then ended.
    owner.stream.destroy(check.stream.errored ?? owner.stream.errored ?? (error as Error));
    throw owner.stream.errored ?? error;
  });
  failed.catch(ignore);

  try {
    return await write(finished, {
      signal,
      timeoutMs,
      describe: () => ({
        ...userIn(owner.lines()?.[0], overlayId),
        createdAt: new Date(now()).toISOString(),
        entries: check.contents.entries,
        contentBytes: check.contents.bytes,
        overlayDirs,
      }),
    });
  } catch (error) {
    stop.abort(error);
    owner.stream.destroy();
    // A store that fails stops reading, which ends the pod's stream: throw the store's error, and not that.
    await failed.catch((cause: unknown) => {
      const { code } = cause as NodeJS.ErrnoException;
      if (code !== "ABORT_ERR" && code !== "ERR_STREAM_PREMATURE_CLOSE") throw cause;
    });
    throw error;
  } finally {
    stop.close();
  }
}

/** Throws unless the pod has said that all was read and sent, and all of that has arrived. */
function checkMark(end: { mark: string; exitCode: number; stderr: string; bytesIn: number }): void {
  const { mark, exitCode, stderr, bytesIn } = end;
  const [, blocks] = /^saved (\d+) \d+\nend\n$/.exec(mark) ?? [];
  if (blocks === undefined || exitCode !== 0) {
    const [, said = stderr] = /^failed\n(.*)\nend\n$/s.exec(mark) ?? [];
    const why = said.trim() || `it ended with ${exitCode} and does not say that all was sent`;
    throw new ExecFailure(`${failure}: ${why}`, { exitCode });
  }
  const sent = Number(blocks) * blockBytes;
  if (sent !== bytesIn) throw new ExecFailure(`${failure}: of ${sent} bytes ${bytesIn} arrived`, { exitCode });
}

/** @param wanted the id of the overlay directories */
function userIn(line: string | undefined, wanted: string | undefined): { uid: number; gid: number } {
  const [, uid, gid, present] = /^(\d+) (\d+) ([0-9a-f]*)$/.exec(line ?? "") ?? [];
  if (uid === undefined || gid === undefined) throw new ArchiveError("Corrupt", "it does not say whose it is");
  if (wanted !== undefined && present !== wanted)
    throw new ArchiveError("Foreign", "the pod came back without the files that its tenant was given");
  return { uid: Number(uid), gid: Number(gid) };
}

function ignore(): void {
  // The failure is thrown where it is waited for.
}
