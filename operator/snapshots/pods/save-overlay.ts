import { pipeline } from "node:stream";
import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { ArchiveLimits } from "../../../crds/archive/archive-limits.ts";
import { createArchivePacker } from "../../../crds/archive/archive-packer.ts";
import type { TabledArchive } from "../../../crds/archive/compose-archive.ts";
import { overlayRoots } from "../../../crds/archive/overlay-roots.ts";
import { BLOCK, type TarEntry } from "../../../crds/archive/tar-header.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { createAcknowledgement } from "../../../crds/snapshots/acknowledgement.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import {
  type Onto,
  type PutCall,
  QuotaError,
  type SnapshotStore,
  type StoreCall,
  StoreError,
} from "../../../crds/snapshots/snapshot-store.ts";
import { linkSignals } from "../../../crds/waits.ts";
import { type ArchiveRoom, createRoomCheck } from "../streams/archive-room.ts";
import { ExecFailure } from "../streams/exec-output.ts";
import type { Changes } from "./changed-files.ts";
import { createListParser, LIST_FUNCTIONS, LIST_HEAD, type ListReader } from "./file-list.ts";
import { FREEZE_FUNCTIONS, MOST_FROZEN_BYTES } from "./freeze.ts";
import { type OverlayPod, overlayCommand, POD_PACE } from "./overlay-pod.ts";
import { BLOCK_BYTES, createEnd, createOutput, failed, ReadAgain } from "./save-output.ts";
import { createSavedFiles, type SavedFiles } from "./saved-files.ts";
import { createSavedState } from "./saved-state.ts";
import { type ArchivedFiles, FILE, TYPE } from "./unchanged-files.ts";

/** What is asked once the readers have read the list of the files. */
export interface AskedFirst {
  readonly readers: readonly ListReader[];
  /** An archive that has the files already: then nothing is saved. */
  present(): Promise<SnapshotMetadata | undefined>;
  /** An archive that may have most of the files. */
  readonly base: BaseArchive | undefined;
}

/** An archive that was restored into the pod, or saved from it. Only what has changed since is sent. */
export interface BaseArchive {
  /** What has to be read, or why that is everything. */
  changes(): Changes | string;
  readonly sizeBytes: number;
  /** If the store does not compose the new archive of it and the changes. */
  readonly archive: TabledArchive | undefined;
  /** Called with an error, or in words, with why no archive is made of it: then everything is read. */
  onRefusal(why: unknown): void;
}

export interface SaveOverlayOptions {
  readonly exec: Exec;
  /**
   * Stores the archive. Its error fails the save, and an error of the archive fails it.
   *
   * @param call.describe called at the end of the archive; throws unless the whole archive is good
   * @param call.onto what stays of the base archive; undefined if this archive has all files
   */
  readonly write: (
    archive: AsyncIterable<Uint8Array>,
    call: StoreCall & { readonly describe: PutCall["describe"]; readonly onto: Omit<Onto, "base"> | undefined },
  ) => Promise<SnapshotMetadata>;
  /** The space of the store, if it has a bound. */
  readonly space: SnapshotStore["space"];
  /** @default the archive has no limit */
  readonly room?: ArchiveRoom | undefined;
  readonly pod: OverlayPod;
  /** The overlay directories that the pod was created with. */
  readonly overlayDirs: readonly string[];
  /** Identifies these directories in the pod. @default any are accepted */
  readonly overlayId?: string | undefined;
  readonly limits: ArchiveLimits;
  /** @default all files are saved */
  readonly asked?: AskedFirst | undefined;
  readonly signal: AbortSignal;
  /** Called with the number of bytes received from the pod. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** Milliseconds for each try. */
  readonly timeoutMs: number;
  /** @default this machine's clock */
  readonly now?: (() => number) | undefined;
  /**
   * Whether the program is stopped, for a moment at most, while its files are read: first of all, or later, once it is
   * known what has to be read. It needs a launcher. @default it is not stopped
   */
  readonly freezes?: "first" | "later" | undefined;
  /** Called with the milliseconds for which the program was stopped. */
  readonly onFrozen?: ((ms: number) => void) | undefined;
  /** Called with what is saved, before the promise resolves. */
  readonly onSaved?: ((files: ArchivedFiles) => void) | undefined;
}

/** tar writes all the time. If it is silent for so long, its node is gone. */
const maxSilenceMs = 60_000;

const SPACE_LIMIT_MS = 60_000;

/** How often the files are read if they move during the read. */
const MOST_TRIES = 3;

// The script counts the failures itself, since messages may be lost on their way.
const script = `b="$1"; cd "$2" || exit 1; asks="$3"; freezes="$4"; shift 4; export LC_ALL=C TZ=UTC0
id="\${b%/*}/overlay-id"
${LIST_FUNCTIONS}
${FREEZE_FUNCTIONS}
echo "$("$b" id -u) $("$b" id -g) $([ ! -r "$id" ] || "$b" cat "$id")"
${LIST_HEAD}
trap thaw EXIT
[ "$freezes" != first ] || freeze
list "$@" || { echo end; exit 1; }
names=
pack() { "$b" tar c -f - -- "$@"; }
# Names are quoted for the shell.
pack_part() {
  eval "set -- $names"
  if [ $# = 0 ]; then "$b" dd if=/dev/zero bs=1024 count=1 status=none; else "$b" tar c --no-recursion -f - -- "$@"; fi
}
if [ -n "$asks" ]; then
  read -r word length || exit 0
  if [ "$word" = thaw ]; then freezes=; thaw; read -r word length || exit 0; fi
  case "$word" in
    save) ;;
    part) names="$("$b" dd bs=65536 count="$length" iflag=fullblock,count_bytes status=none)" || exit 1
      pack() { pack_part; } ;;
    *) exit 0 ;;
  esac
fi
[ "$freezes" != later ] || freeze
{
  report="$(
    {
      { pack "$@"; echo "ended with $?" >&2; } |
        "$b" dd bs=${BLOCK_BYTES} iflag=fullblock conv=sync >&3
    } 2>&1 | judge
  )"
} 3>&1
echo "$report"
case "$report" in
  "failed"*) echo end; echo "$report" >&2; exit 1 ;;
esac
digest="$(list "$@" | "$b" sha256sum)"
thaw
[ -z "$froze" ] || echo "froze $froze"
echo "list $digest"
echo end
while read -r word && [ "$word" = list ]; do
  list "$@"
  echo end
done`;

/**
 * Saves the overlay directories of a running pod as one archive, which replaces the previous one.
 *
 * tar runs as the workload's user. Its archive is checked and compressed on its way to the store
 * (docs/decisions/snapshots.md#archives-pass-through-the-operator), which stores the complete archive or nothing.
 * Sockets and named pipes are left out: they have no content.
 *
 * The archive is good if it has all files of the lists before and after it, and if the pod then confirms the number of
 * sent bytes. So a failure whose message is lost never looks like a success. If the program moved or created files in
 * the meantime, they are read again (docs/decisions/snapshots.md#a-save-is-held-against-lists).
 *
 * @throws ArchiveError if the archive breaks a rule or is truncated, or the directories are not the wanted ones
 * @throws MovedOn if the program is stopped later, and had changed something by then
 * @throws ExecFailure if tar fails, or the program keeps moving its files; the message has the command's output
 * @throws as `Exec` does
 */
export async function saveOverlay(options: SaveOverlayOptions): Promise<SnapshotMetadata> {
  const files = createSavedFiles();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await tryToSave(options, { files, isFirst: attempt === 1, isLast: attempt === MOST_TRIES });
    } catch (error) {
      if (!(error instanceof ReadAgain)) throw error;
      if (attempt === 1) options.asked?.base?.onRefusal(error.cause ?? error.message);
    }
  }
}

async function tryToSave(
  options: SaveOverlayOptions,
  { files, isFirst, isLast }: { files: SavedFiles; isFirst: boolean; isLast: boolean },
): Promise<SnapshotMetadata> {
  const { exec, write, pod, overlayDirs, overlayId, room, limits, timeoutMs, now = systemClock.now } = options;
  const { maxEntries } = limits;
  const { freezes, onFrozen } = options;
  const asked = isFirst ? options.asked : undefined;
  const asks = asked !== undefined || freezes !== undefined;
  const roots = overlayRoots(overlayDirs);
  const stop = linkSignals(options.signal);
  const { signal } = stop;
  const space = () => options.space({ signal, timeoutMs: SPACE_LIMIT_MS });
  const acknowledgement = createAcknowledgement();
  let waits = false;
  let changes: Changes | undefined;
  const missing = new Set(roots);
  const state = createSavedState();
  let listedBytes = 0;
  const size: Pick<ListReader, "file"> = {
    file(file) {
      if ((file.mode & TYPE) === FILE) listedBytes += file.size;
    },
  };
  const readers = [...(asked?.readers ?? []), files.before, state.before, size];
  const listed = createListParser(readers, { maxEntries, heads: roots.length });
  const output = createOutput(listed, options.onBytes);
  let packer = createArchivePacker();
  const check = createArchiveCheck({
    ...{ roots, limits, leaveOutPipes: true, onDangling: files.dangling },
    rewrite(entry) {
      missing.delete(entry.path);
      files.archived(entry);
      return entry;
    },
    onEntry: (entry, place) => packer.begin(entry, place),
    onTrailer: (chunk) => end.take(chunk),
  });
  files.begin(check.kindOf);
  const end = createEnd({
    files,
    listed,
    state,
    acknowledgement,
    limits,
    isLast,
    bytesIn: () => check.contents.bytesIn,
    onFrozen,
    mustBeSame: freezes === "later",
  });

  const target = overlayCommand(pod, script, [asks ? "asks" : "", freezes ?? "", ...roots]);
  const streams = { stdin: acknowledgement.stdin, stdout: output.stream, minOutput: POD_PACE, isWaiting: () => waits };
  const source = exec({ ...target, ...streams, signal, timeoutMs, maxSilenceMs }).then((ended) => {
    const { isWhole, problem } = end.judge({ ...ended, words: output.words() });
    const [gone] = missing;
    if (gone !== undefined) throw failed(`${Buffer.from(gone, "latin1")} was not there`);
    if (!isWhole && !isLast) throw new ReadAgain(problem);
    if (problem !== undefined) throw failed(`they changed while they were read, in ${MOST_TRIES} tries: ${problem}`);
    output.stream.end();
  });
  const sourceFailed = source.catch((error: unknown) => {
    // Throw why the archive was refused, not the end of its stream that follows.
    output.stream.destroy(check.stream.errored ?? output.stream.errored ?? (error as Error));
    throw output.stream.errored ?? error;
  });
  sourceFailed.catch(ignore);

  const checked = pipeline(output.stream, check.stream, ignore);
  function ask(): void {
    acknowledgement.say(changes === undefined ? "save" : `part ${changes.names.length}`);
    if (changes !== undefined) acknowledgement.stdin.push(changes.names);
  }
  /** Once the base archive, if this end reads it, was read: before, the pod has to send nothing. */
  async function* tar(): AsyncGenerator<Uint8Array> {
    waits = false;
    if (asks && freezes !== "first") ask();
    yield* checked;
  }

  try {
    if (asks) {
      await Promise.race([output.isListed, sourceFailed]);
      waits = true;
      const present = await asked?.present();
      if (present !== undefined) {
        waits = false;
        acknowledgement.send();
        await sourceFailed.catch(ignore);
        return present;
      }
      const found = asked?.base?.changes();
      if (typeof found === "string") asked?.base?.onRefusal(found);
      else changes = found;
      for (const entry of changes?.kept ?? []) {
        missing.delete(entry.path);
        files.archived(entry, true);
        check.keep(entry);
      }
      const isMuch = (changes?.bytes ?? listedBytes) > MOST_FROZEN_BYTES;
      if (freezes !== undefined && isMuch) acknowledgement.say("thaw");
      // Until it has sent them, the program is stopped.
      if (freezes === "first") ask();
    }
    const archive = asked?.base?.archive;
    if (changes !== undefined && archive !== undefined) {
      packer = createArchivePacker({ base: archive, keeps: changes.keeps });
    }
    const compressed = packer.pack(tar());
    const onto = changes && archive === undefined ? { keeps: changes.keeps, table: packer.table } : undefined;
    const moreBytes = onto && Math.min(asked?.base?.sizeBytes ?? 0, bytesOf(changes?.kept ?? []));
    const finished =
      room === undefined ? compressed : pipeline(compressed, createRoomCheck(room, { space, moreBytes }), ignore);
    const saved = await write(finished, {
      ...{ signal, timeoutMs, onto },
      describe: (stored) => ({
        ...userIn(output.owner(), overlayId),
        createdAt: new Date(now()).toISOString(),
        entries: check.contents.entries,
        contentBytes: check.contents.bytes,
        overlayDirs,
        table: onto === undefined ? packer.table() : stored.table,
      }),
    });
    const savedFiles = state.files();
    if (savedFiles !== undefined) options.onSaved?.(savedFiles);
    return saved;
  } catch (error) {
    stop.abort(error);
    output.stream.destroy();
    // A store that fails stops reading, which ends the pod's stream. Throw the store's error, not the end of the
    // stream.
    const failure = await sourceFailed.then(
      () => error,
      (cause: unknown) => (isEndOfStream(cause) ? error : cause),
    );
    if (changes === undefined || !mayBeOfBase(failure)) throw failure;
    throw new ReadAgain(undefined, { cause: failure });
  } finally {
    stop.close();
  }
}

function isEndOfStream(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ABORT_ERR" || code === "ERR_STREAM_PREMATURE_CLOSE";
}

/**
 * Whether a save of all files may succeed: if the base archive is damaged, gone or cannot be read, there is no room to
 * compose it, the store is an earlier one that does not, or the pod takes fewer names.
 */
function mayBeOfBase(error: unknown): boolean {
  if (error instanceof QuotaError) return false;
  return error instanceof ArchiveError || error instanceof StoreError || error instanceof ExecFailure;
}

/** What the entries take in a tar, or more. */
function bytesOf(entries: readonly TarEntry[]): number {
  return entries.reduce((sum, { size }) => sum + size + 4 * BLOCK, 0);
}

/** @param wanted the id of the overlay directories */
function userIn(line: string | undefined, wanted: string | undefined): { uid: number; gid: number } {
  const [, uid, gid, present] = /^(\d+) (\d+) ([0-9a-f]*)$/.exec(line ?? "") ?? [];
  if (uid === undefined || gid === undefined) throw new ArchiveError("Corrupt", "it does not say who owns it");
  if (wanted !== undefined && present !== wanted)
    throw new ArchiveError("Foreign", "the pod came back without the files that its tenant was given");
  return { uid: Number(uid), gid: Number(gid) };
}

function ignore(): void {
  // The failure is thrown where it is awaited.
}
