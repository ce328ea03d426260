import type { Exec } from "../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../crds/client/exec/exec-outcome.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { PROOF_MS } from "../pod/program-runs.ts";
import { type OverlayPod, overlayCommand, POD_PACE } from "../snapshots/pods/overlay-pod.ts";
import { ExecFailure } from "../snapshots/streams/exec-output.ts";
import { fedScript, feedCommand } from "../snapshots/streams/feed-command.ts";
import { END, frames } from "../snapshots/streams/frames.ts";
import { ANSWER, asked, createPrestartedCommands } from "../snapshots/streams/prestarted-commands.ts";
import { type GivenInputs, packInputs } from "./given-inputs.ts";
import { healthOf, healthyFunction } from "./health-check.ts";
import { LAUNCHER_FOLDER, startsOnClaim } from "./launch-command.ts";

/** Begins the start, before which the command changes nothing. Only `start` waits for the program's health. */
const words = { inputs: "inputs\n", start: "start", launch: "launch" };
/** The exit code where the pod does not have them, since its program was never started or its memory is lost. */
const NEVER_STARTED = 3;
/** The exit code where the inputs were not taken as a whole. */
const NOT_TAKEN = 4;
const WHAT = "start the program";
/** A program that takes longer to be healthy is looked at again and again, and takes no connection in between. */
const PATIENCE_SECONDS = 5;
const LOOK_SECONDS = 1;
/** Of a command, with the time that a last look can take. */
const LIMIT_MS = 30_000;

// A program that ends takes its container with it, and so this command. The operator that began it may be gone, so it
// also ends by itself: on the files that stop the program, and when its patience is over.
const script = fedScript(`b="$1"; cd "$2" || exit 1; d=${LAUNCHER_FOLDER}; patience="$3"; port="$4"; path="$5"
${healthyFunction}
now() { read -r up idle < /proc/uptime; up="\${up%.*}\${up#*.}"; }
until_so() {
  pause=2000
  until "$@"; do
    [ ! -e $d/stop ] && [ ! -e $d/term ] || { echo "it is being stopped"; return 1; }
    now
    [ "$up" -lt "$end" ] || { echo "$why"; return 1; }
    "$b" usleep "$pause"
    [ "$pause" -ge 500000 ] || pause=$((pause + pause / 4))
  done
}
# Another command may do the same: each has a part of its own, and the launcher reads the last that is whole.
keep() {
  # Of commands that were cut off, or that come too late.
  for part in $d/inputs.*; do [ ! -e "$part" ] || "$b" rm -f "$part"; done
  part="$d/inputs.$$"
  umask 077
  receive > "$part" && "$b" mv "$part" $d/inputs && return
  "$b" rm -f "$part"
  return ${NOT_TAKEN}
}
begin() {
  read -r word && [ "$word" = ask ] && echo ${ANSWER} || return 1
  read -r word given || return 1
  if [ "$word" = inputs ]; then
    if [ -e $d/claimed ]; then receive > /dev/null || return ${NOT_TAKEN}; else keep || return; fi
    read -r word || return 1
  fi
  [ "$given" != given ] || [ -e $d/claimed ] || return ${NEVER_STARTED}
  now; end=$((up + patience * 100))
  [ -e $d/claimed ] || : > $d/claimed || return 1
  # Another command may have ended between its two steps. A launcher without a pipe looks at the file itself.
  [ -s $d/program ] || [ ! -p $d/wake ] || echo start 1<> $d/wake || return 1
  why="the launcher does not answer"
  until_so [ -s $d/program ] || return 1
  [ "$word" = start ] || return 0
  [ -n "$port" ] || "$b" usleep ${PROOF_MS * 1000}
  until_so healthy
}
begin`);

export interface StartOptions {
  /** For a program that has not been started in this pod. @default none */
  readonly inputs?: GivenInputs | undefined;
  /** Called when the inputs were sent. */
  readonly onGiven?: () => void;
  /** Whether the pod should have them already. It fails where that is not so. @default false */
  readonly isGiven?: boolean;
  /** Whether to wait until the program is healthy, for 5 s. @default false */
  readonly isHealthy?: boolean;
  /** Whether that was tried before: then it is looked at once. @default false */
  readonly isAgain?: boolean;
  readonly signal: AbortSignal;
}

/**
 * Starts the programs that wait for their pod to be claimed. Each step is repeatable: one that runs already is only
 * waited for, so another operator may begin again.
 */
export interface ProgramStarter {
  /** Prestarts the command in a pod that waits; it changes nothing there until it is used. */
  prepare(pod: Pod): void;
  /** Call this when the pod is about to be claimed: the prestarted command answers in the meantime. */
  warm(pod: Pod): void;
  /**
   * Starts the pod's program, unless it runs.
   *
   * @throws ExecFailure if the program ends first or is not healthy yet, or the pod cannot start it
   * @throws as `Exec` does
   */
  start(pod: Pod, options: StartOptions): Promise<void>;
  /** Ends the pod's prestarted command. */
  cancelPrestarted(pod: Pod): void;
  /** Ends all prestarted commands. */
  close(): void;
}

/** @param options.busybox of the pods, and `root`, for tests */
export function createProgramStarter(
  options: { exec: Exec } & Pick<OverlayPod, "namespace" | "busybox" | "root">,
): ProgramStarter {
  const { exec, ...where } = options;
  const commandFor = ({ metadata, spec }: Pod, patience: number): ExecTarget => {
    const { port = "", path = "" } = healthOf(spec);
    const pod = { ...where, pod: metadata.name, container: WORKLOAD_CONTAINER };
    return overlayCommand(pod, script, [String(patience), String(port), path]);
  };
  const prestarted = createPrestartedCommands({ exec, what: WHAT, minInput: POD_PACE, timeoutMs: LIMIT_MS });
  return {
    prepare(pod) {
      if (startsOnClaim(pod.spec)) prestarted.prepare(idOf(pod), commandFor(pod, PATIENCE_SECONDS));
    },
    warm: (pod) => prestarted.warm(idOf(pod)),
    async start(pod, options) {
      const { signal, isAgain = false } = options;
      const fed = { input: inputOf(options), signal, timeoutMs: LIMIT_MS };
      const command = await prestarted.take(idOf(pod), signal);
      if (command !== undefined) return await command.feed(fed);
      const target = commandFor(pod, isAgain ? LOOK_SECONDS : PATIENCE_SECONDS);
      await feedCommand({ ...fed, exec, target, what: WHAT, input: asked(fed.input) });
    },
    cancelPrestarted: (pod) => prestarted.cancel(idOf(pod)),
    close: prestarted.close,
  };
}

/** What the command reads after its question. */
async function* inputOf({ inputs, onGiven, isGiven, isHealthy }: StartOptions): AsyncGenerator<Uint8Array> {
  if (inputs !== undefined) {
    yield Buffer.from(words.inputs);
    yield* frames([packInputs(inputs)]);
    yield END;
    onGiven?.();
  }
  const word = isHealthy ? words.start : words.launch;
  yield Buffer.from(isGiven ? `${word} given\n` : `${word}\n`);
}

/** Whether a start failed since the pod does not have the inputs. */
export function isNeverStarted(error: unknown): boolean {
  return error instanceof ExecFailure && error.exitCode === NEVER_STARTED;
}

/** Whether a pod that a start failed in has its inputs. */
export function hasTaken(error: unknown): boolean {
  return error instanceof ExecFailure && error.exitCode === 1;
}

function idOf({ metadata: { uid = "" } }: Pod): string {
  return uid;
}
