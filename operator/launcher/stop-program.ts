import type { Exec } from "../../crds/client/exec/exec.ts";
import { endFreeze } from "../snapshots/pods/freeze.ts";
import { type OverlayPod, overlayCommand } from "../snapshots/pods/overlay-pod.ts";
import { collectOutput, ExecFailure } from "../snapshots/streams/exec-output.ts";
import { LAUNCHER_FOLDER } from "./launch-command.ts";
import { BELOW_FUNCTION, NOW_FUNCTION } from "./shell-functions.ts";

/** How long processes may take to end after SIGKILL. */
const KILL_LIMIT_MS = 10_000;
/** Above what is waited for in the pod. */
const ANSWER_LIMIT_MS = 15_000;

const script = `b="$1"; cd "$2" || exit 1; grace="$3"; limit="$4"; d=${LAUNCHER_FOLDER}
[ -d $d ] || { echo none; exit 0; }
${endFreeze(LAUNCHER_FOLDER)}
${NOW_FUNCTION}
${BELOW_FUNCTION}
now; end=$((up + grace * 100))
: > $d/stop || exit 1
program=
[ ! -f $d/program ] || read -r program < $d/program
[ -e $d/term ] || [ -z "$program" ] || kill -TERM -"$program" 2> /dev/null || kill -TERM "$program" 2> /dev/null
word=stopped
while pids="$(below ZX)"; [ -n "$pids" ]; do
  now
  if [ "$word" = stopped ]; then
    # A daemon that the program started is in another group.
    [ -n "$program" ] && [ -d /proc/"$program" ] || [ -n "$asked" ] || { asked=1; kill -TERM $pids 2> /dev/null; }
    [ "$up" -lt "$end" ] || { word=killed; end=$((up + limit / 10)); }
  fi
  if [ "$word" = killed ]; then
    [ "$up" -lt "$end" ] || { echo stays; exit 0; }
    kill -KILL $pids 2> /dev/null
  fi
  "$b" sleep 0.02
done
echo $word`;

/** How a program came to its end; `none` without a launcher, and `stays` if a process does not end even by SIGKILL. */
export type Stopped = "stopped" | "killed" | "stays" | "none";

/**
 * Ends the program of a pod for good, and all that it has started: SIGTERM to its process group, then to what is left
 * when the program has ended, then SIGKILL. The container goes on, so that the files can be read.
 *
 * @param options.graceSeconds from SIGTERM to SIGKILL
 * @throws ExecFailure if the command in the pod fails
 * @throws as `Exec` does
 */
export async function stopProgram(options: {
  exec: Exec;
  pod: OverlayPod;
  graceSeconds: number;
  signal: AbortSignal;
}): Promise<Stopped> {
  const { exec, pod, graceSeconds, signal } = options;
  const target = overlayCommand(pod, script, [String(graceSeconds), String(KILL_LIMIT_MS)]);
  const timeoutMs = graceSeconds * 1000 + KILL_LIMIT_MS + ANSWER_LIMIT_MS;
  const { exitCode, stdout, stderr } = await collectOutput(exec, { target, signal, timeoutMs, maxBytes: 1024 * 1024 });
  const word = stdout.trim();
  if (exitCode === 0 && (word === "stopped" || word === "killed" || word === "stays" || word === "none")) return word;
  const why = stderr.trim() || `it ended with ${exitCode}`;
  throw new ExecFailure(`Cannot stop the program: ${why}`, { exitCode });
}
