import { isProgramRunning, programContainer } from "../../crds/claims/claim-pod.ts";
import type { Pod, PodSpec } from "../../crds/kubernetes.ts";
import { START_PROGRAM, TOOLS_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import { takeInputsFunction } from "./given-inputs.ts";

/** Where the launcher keeps its state, without a slash at its start. In memory; the workload's user may write it. */
export const LAUNCHER_FOLDER = "run/tenancy";

/** Name of the launcher in its own command line, by which a pod that has one is recognised, and what it does. */
const NAME = "tenancy-launcher";
const ON_CLAIM = "-on-claim";
/** Of one that starts with its claim, which those of earlier versions lack. */
const TAKES_INPUTS = "-takes-inputs";
const WITHOUT_FILES = "-without-files";

/**
 * Runs the workload's program as the only child of process 1, so that the container outlives it.
 *
 * - `program`: the pid of the program, which leads a process group and a session of its own.
 * - `wake`: a named pipe. The line `end` lets the container end as soon as the kubelet ends it: nothing is left to
 *   save. Any other line makes the launcher look at the files below.
 * - `claimed`: made before a program starts that starts with its claim. It stays, so that such a program starts at once
 *   where the kubelet starts the container again. Without it there can be files to save all the same: a restart of the
 *   node empties this folder.
 * - `inputs`: what the claim gives to a program that starts with it, as `takeInputsFunction` reads it. That makes
 *   `variables` of it, and `taken` when all files were written once.
 * - `stop`: made before the program is stopped for good. The launcher then stays, and starts it no more.
 * - `term`: made when the kubelet ends the container, by its `preStop` hook, since an image can name any signal for
 *   that.
 * - `hook`: the pid of that hook. Process 1 takes all others with it, and the kubelet reports a hook that was killed as
 *   failed, so the launcher ends after it.
 *
 * A program that ends by itself ends the container with its exit code, and the kubelet starts both again.
 *
 * The program gets the environment of the container from `env`, since the shell adds variables of its own and leaves
 * out those whose names it cannot use, such as `a.b`.
 */
const script = `b="$1"; start="$2"; d="$3"; shift 4
p=; ended=
${takeInputsFunction}
hear() { read -r word <&9 && [ "$word" = end ] && ended=1; }
for s in HUP INT QUIT USR1 USR2 WINCH; do trap '[ -z "$p" ] || kill -'$s' "$p"' $s; done
# Until it has a group of its own the program gets the signal alone.
end() { kill -TERM -"$p" 2> /dev/null || kill -TERM "$p"; }
trap ': > "$d"/term; [ -z "$p" ] || end' TERM
"$b" rm -f "$d"/program "$d"/term "$d"/hook "$d"/wake
"$b" mkfifo -m 600 "$d"/wake && exec 9<> "$d"/wake || exit 125
await_hook() {
  [ -e "$d"/term ] && [ -f "$d"/hook ] && read -r hook < "$d"/hook || return
  case "$hook" in ''|1|*[!0-9]*) return ;; esac
  for wait in $("$b" seq 500); do [ -d /proc/"$hook" ] || return; "$b" usleep 10000; done
}
trap await_hook EXIT
code=0
case "$0" in *${ON_CLAIM}*)
  until [ -e "$d"/claimed ] || [ -e "$d"/stop ] || [ -e "$d"/term ]; do hear; done
esac
if [ -e "$d"/stop ]; then :; elif [ -e "$d"/term ]; then
  code=143
else
  program="$1"; shift
  case "$program" in */*) ;; *)
    IFS=:
    for folder in $PATH; do
      [ -f "\${folder:-.}/$program" ] && [ -x "\${folder:-.}/$program" ] && program="\${folder:-.}/$program" && break
    done
    unset IFS
    ;;
  esac
  case "$program" in
    */*) [ -e "$program" ] || { echo "exec: \\"$program\\": no such file or directory" >&2; exit 127; } ;;
    *) echo "exec: \\"$program\\": executable file not found in \\$PATH" >&2; exit 127 ;;
  esac
  [ -f "$program" ] && [ -x "$program" ] || { echo "exec: \\"$program\\": permission denied" >&2; exit 126; }
  names=
  if [ -e "$d"/inputs ]; then
    (cd "\${d%${LAUNCHER_FOLDER}}" && take_inputs < "$d"/inputs >&2) || exit 125
    while IFS= read -r -d '' variable; do names="$names \${variable%%=*} "; done < "$d"/variables
  fi
  set -- "$program" "$@"
  while IFS= read -r -d '' variable; do
    case "$names" in *" \${variable%%=*} "*) ;; *) set -- "$variable" "$@" ;; esac
  done < /proc/self/environ
  [ -x "$start" ] || start="$b setsid"
  {
    # A signal that came before this is in a file, and a later one ends this process.
    [ ! -e "$d"/term ] && [ ! -e "$d"/stop ] || exit 143
    if [ -z "$names" ]; then
      exec $start "$b" env -i -- "$@" 9<&-
    fi
    # Command lines are for all to read, so the claim's variables take another way. The shell has some of its own.
    set -- -- "$@"
    for own in SHLVL PWD OLDPWD _; do
      case "$names" in *" $own "*) ;; *) set -- -u "$own" "$@" ;; esac
    done
    set -- $start "$b" env "$@"
    while IFS= read -r -d '' TENANCY_VARIABLE; do export "$TENANCY_VARIABLE"; done < "$d"/variables
    exec "$@" 9<&-
  } &
  p=$!
  echo "$p" > "$d"/program
  # It came after the process had looked, and before it had a name here.
  [ ! -e "$d"/term ] && [ ! -e "$d"/stop ] || end
  # A signal interrupts the wait, also one that comes as the program ends: then the next wait knows its exit code.
  while wait "$p"; code=$?; [ -d /proc/"$p" ] && [ "$code" != 127 ]; do :; done
  wait "$p" 2> /dev/null
  again=$?
  [ "$again" = 127 ] || code="$again"
  p=
fi
case "$0" in *${WITHOUT_FILES}) exit "$code" ;; esac
[ -e "$d"/term ] || [ -e "$d"/stop ] || exit "$code"
until [ -e "$d"/term ] && [ -n "$ended" ]; do hear; done
exit "$code"`;

/** What the launcher runs. */
export interface LaunchedProgram {
  /** Looked for in `PATH` unless it has a slash, as the container runtime does. */
  readonly program: string;
  readonly args: readonly string[];
  /** From SIGTERM to SIGKILL, when it is stopped for a save. */
  readonly stopGraceSeconds: number;
  /** Whether it starts only when its pod is claimed. @default false */
  readonly startsOnClaim?: boolean;
  /** Whether the container outlives it until its files are saved. @default true */
  readonly keepsFiles?: boolean;
}

/** A program that the launcher of a pod runs. */
export interface PodProgram extends LaunchedProgram {
  /** Whether the launcher applies what a claim brings. That of an earlier version would ignore it. */
  readonly takesInputs: boolean;
}

/** The command of a container whose program the launcher runs. Kubernetes makes one `$` of two in it. */
export function launchCommand(
  { program, args, stopGraceSeconds, startsOnClaim = false, keepsFiles = true }: LaunchedProgram,
  { busybox = TOOLS_BUSYBOX, start = START_PROGRAM, folder = `/${LAUNCHER_FOLDER}` } = {},
): string[] {
  const title = `${NAME}${startsOnClaim ? `${ON_CLAIM}${TAKES_INPUTS}` : ""}${keepsFiles ? "" : WITHOUT_FILES}`;
  return [busybox, "sh", "-c", script, title, busybox, start, folder, String(stopGraceSeconds), program, ...args];
}

/** Tells the launcher that the kubelet ends the container, before it does. */
export function preStopHook({ busybox = TOOLS_BUSYBOX, folder = `/${LAUNCHER_FOLDER}` } = {}) {
  const script = `cd ${folder} || exit; echo $$ > hook; : > term; [ ! -p wake ] || echo term > wake`;
  return { exec: { command: [busybox, "sh", "-c", script] } };
}

/** What the launcher runs in a pod; undefined where it does not run the program. */
export function launchedProgram(spec: PodSpec): PodProgram | undefined {
  const { command = [] } = programContainer(spec) ?? {};
  const [, , , , name, , , , stopGraceSeconds, program, ...args] = command;
  if (name?.startsWith(NAME) !== true || program === undefined) return undefined;
  return {
    ...{ program, args, stopGraceSeconds: Number(stopGraceSeconds) },
    ...{ startsOnClaim: name.includes(ON_CLAIM), keepsFiles: !name.endsWith(WITHOUT_FILES) },
    takesInputs: name.includes(TAKES_INPUTS),
  };
}

/** Whether the launcher keeps the pod's container until its files are saved. */
export function keepsFiles(spec: PodSpec): boolean {
  return launchedProgram(spec)?.keepsFiles === true;
}

/** Whether the pod's program starts only when the pod is claimed. */
export function startsOnClaim(spec: PodSpec): boolean {
  return launchedProgram(spec)?.startsOnClaim === true;
}

/** Whether the pod's launcher applies what a claim brings. */
export function takesInputs(spec: PodSpec): boolean {
  return launchedProgram(spec)?.takesInputs === true;
}

/** Whether the pod is being deleted, and its launcher waits for its files to be saved. */
export function isHeldByLauncher(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp !== undefined && keepsFiles(pod.spec) && isProgramRunning(pod);
}
