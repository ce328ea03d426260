import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";
import { fedScript } from "../streams/feed-command.ts";
import { ANSWER } from "../streams/prestarted-commands.ts";
import { SAY_FOLDERS } from "./folders.ts";
import { type OverlayPod, overlayCommand } from "./overlay-pod.ts";
import { SAY_POD_TIME } from "./pod-time.ts";
import { RESTORE_GATE, TOOLS_IMAGE_BUSYBOX } from "./pod-tools.ts";

/** Begins the restore: the command empties the directories. */
export const RESTORE_BEGIN = Buffer.from("begin\n");

/** Announces the frames of a tar archive to unpack, or of lines for a shell whose `$b` is busybox. */
export const RESTORE_TAR = Buffer.from("tar\n");
export const RESTORE_SHELL = Buffer.from("shell\n");

/** Asks for what `readFolders` and `readPodTime` read, once all files are unpacked. */
export const RESTORE_STATE = Buffer.from("state\n");

/** Ends the input, if all of it was good. */
export const RESTORE_END = Buffer.from("restored\n");

// Each program costs some milliseconds, and a new pod has nothing to delete, so the shell itself checks for that. A
// folder that cannot be read does not count as empty.
const script = fedScript(`b="$1"; cd "$2" || exit 1; gate="$3"; shift 3; umask 0; export b
is_empty() {
  [ -r "$1" ] && [ -x "$1" ] || return 1
  for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -e "$entry" ] || [ -L "$entry" ]; then return 1; fi
  done
}
empty() {
  "$b" find "$1" -mindepth 1 -type d -exec "$b" chmod u+rwx {} + || return 1
  "$b" find "$1" -mindepth 1 -maxdepth 1 -exec "$b" rm -rf {} +
}
restore() {
  read -r word && [ "$word" = ask ] && echo ${ANSWER} || return 1
  read -r word && [ "$word" = begin ] || return 1
  for folder; do
    is_empty "./$folder" || empty "./$folder" || return 1
  done
  while read -r word; do
    case "$word" in
      tar) receive | "$b" tar x -o -f - || return 1 ;;
      shell) receive | "$b" sh || return 1 ;;
      state) say_state "$@" ;;
      restored) open_gate; return ;;
      *) return 1 ;;
    esac
  done
  return 1
}
# Earlier changes of files have an earlier time than this one: a tick of the clock of file times takes 10 ms at most.
say_state() {
  ${SAY_FOLDERS}
  "$b" usleep 12000
  ${SAY_POD_TIME}
}
open_gate() {
  [ -n "$gate" ] || return 0
  tries=0
  until [ -p "$gate" ] || [ $tries = 200 ]; do tries=$((tries + 1)); "$b" usleep 50000; done
  [ -p "$gate" ] && echo restored > "$gate"
}
restore "$@"`);

/**
 * The command that restores its input into a pod.
 *
 * @param options.roots the overlay directories, from `overlayRoots`
 * @param options.opensGate whether an init container waits for the restore
 */
export function restoreCommand(
  pod: OverlayPod,
  { roots, opensGate }: { roots: readonly string[]; opensGate: boolean },
): ExecTarget {
  // The init container may not have copied busybox yet.
  const where = opensGate ? { busybox: TOOLS_IMAGE_BUSYBOX, ...pod } : pod;
  return overlayCommand(where, script, [opensGate ? RESTORE_GATE : "", ...roots]);
}
