import type { Exec } from "../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../crds/client/exec/exec-outcome.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { PROOF_MS } from "../pod/program-runs.ts";
import { type OverlayPod, POD_PACE, podCommand } from "../snapshots/pods/overlay-pod.ts";
import { ExecFailure } from "../snapshots/streams/exec-output.ts";
import { fedScript, feedCommand } from "../snapshots/streams/feed-command.ts";
import { END, frames } from "../snapshots/streams/frames.ts";
import { ANSWER, asked, createPrestartedCommands } from "../snapshots/streams/prestarted-commands.ts";
import { awaitsClaim, hasClaimHook, hookScript, hookWords, packFiles } from "./claim-hook.ts";
import { type GivenInputs, NEVER_GIVEN, NOT_TAKEN, packInputs } from "./given-inputs.ts";
import { healthOf, healthyFunction } from "./health-check.ts";
import { LAUNCHER_FOLDER } from "./launch-command.ts";
import { NOW_FUNCTION } from "./shell-functions.ts";

/** Begins the start, before which the command changes nothing. Only `start` waits for the program's health. */
const words = { inputs: "inputs\n", start: "start", launch: "launch" };
/** A program that takes longer to be healthy is looked at again and again, and takes no connection in between. */
const PATIENCE_SECONDS = 5;
const LOOK_SECONDS = 1;
/** Of a command, with the time that a last look can take. */
const LIMIT_MS = 30_000;
/** Of a command that calls a hook, for at most a minute. */
const HOOK_LIMIT_MS = 90_000;

// A program that ends takes its container with it, and so this command. The operator that began it may be gone, so it
// also ends by itself: on the files that stop the program, and when its patience is over.
const script =
  fedScript(`home="$PWD"; b="$1"; cd "$2" || exit 1; d=${LAUNCHER_FOLDER}; patience="$3"; port="$4"; path="$5"; proof_ms="$6"; shift 6
${healthyFunction}
${NOW_FUNCTION}
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
  [ "$given" != given ] || [ -e $d/claimed ] || return ${NEVER_GIVEN}
  now; end=$((up + patience * 100))
  [ -e $d/claimed ] || : > $d/claimed || return 1
  # Another command may have ended between its two steps. A launcher without a pipe looks at the file itself.
  [ -s $d/program ] || [ ! -p $d/wake ] || echo start 1<> $d/wake || return 1
  why="the launcher does not answer"
  until_so [ -s $d/program ] || return 1
  [ "$word" = start ] || return 0
  "$b" usleep "\${proof_ms}000"
  until_so healthy "$@"
}
begin "$@"`);

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
 * Brings claims to the programs of their pods: starts those that wait for that, and calls the hooks of those that run.
 * Each step is repeatable: a program that was started is only waited for, so another operator may begin again. A hook
 * is then called once more.
 */
export interface ProgramStarter {
  /** Prestarts the command in a pod that waits; it changes nothing there until it is used. */
  prepare(pod: Pod): void;
  /** Call this when the pod is about to be claimed: the prestarted command answers in the meantime. */
  warm(pod: Pod): void;
  /**
   * Starts the pod's program, unless it runs, or calls its hook.
   *
   * @throws ExecFailure if the program ends first or is not healthy yet, the pod cannot start it, or the hook fails
   * @throws as `Exec` does
   */
  start(pod: Pod, options: StartOptions): Promise<void>;
  /** Ends the pod's prestarted command. */
  cancelPrestarted(pod: Pod): void;
  /** Ends all prestarted commands. */
  close(): void;
}

/** What brings a claim to a program: its start, or a call of its hook. */
interface Kind {
  /** What its commands do, for the error `Cannot <what>`. */
  readonly what: string;
  readonly script: string;
  /** The parameters of the script for a pod. */
  wordsFor(pod: Pod, patienceSeconds: number): string[];
  /** Inputs as the script reads them. */
  pack(inputs: GivenInputs): AsyncIterable<Uint8Array>;
  readonly timeoutMs: number;
}

const start: Kind = {
  what: "start the program",
  script,
  wordsFor({ spec }, patienceSeconds) {
    const { port = "", path = "", command = [], isUnproven = false } = healthOf(spec);
    const proofMs = port === "" && command.length === 0 && !isUnproven ? PROOF_MS : 0;
    return [String(patienceSeconds), String(port), path, String(proofMs), ...command];
  },
  async *pack(inputs) {
    yield* frames([packInputs(inputs)]);
    yield END;
  },
  timeoutMs: LIMIT_MS,
};

const hook: Kind = {
  what: "call entrypoint.onClaim",
  script: hookScript,
  wordsFor: hookWords,
  pack: packFiles,
  timeoutMs: HOOK_LIMIT_MS,
};

/** @param options.busybox of the pods, and `root`, for tests */
export function createProgramStarter(
  options: { exec: Exec } & Pick<OverlayPod, "namespace" | "busybox" | "root">,
): ProgramStarter {
  const { exec, ...where } = options;
  const prepared = (kind: Kind) => {
    const { what, timeoutMs } = kind;
    return { ...kind, prestarted: createPrestartedCommands({ exec, what, minInput: POD_PACE, timeoutMs }) };
  };
  const [starts, hooks] = [prepared(start), prepared(hook)];
  const kindOf = (pod: Pod) => (hasClaimHook(pod) ? hooks : starts);
  const commandFor = (pod: Pod, { script, wordsFor }: Kind, patienceSeconds: number): ExecTarget =>
    podCommand(
      { ...where, pod: pod.metadata.name, container: WORKLOAD_CONTAINER },
      script,
      wordsFor(pod, patienceSeconds),
    );
  return {
    prepare(pod) {
      const kind = kindOf(pod);
      if (awaitsClaim(pod)) kind.prestarted.prepare(idOf(pod), commandFor(pod, kind, PATIENCE_SECONDS));
    },
    warm: (pod) => kindOf(pod).prestarted.warm(idOf(pod)),
    async start(pod, options) {
      const { signal, isAgain = false } = options;
      const kind = kindOf(pod);
      const { what, prestarted, timeoutMs } = kind;
      const fed = { input: inputOf(options, kind), signal, timeoutMs };
      const command = await prestarted.take(idOf(pod), signal);
      if (command !== undefined) return await command.feed(fed);
      const target = commandFor(pod, kind, isAgain ? LOOK_SECONDS : PATIENCE_SECONDS);
      await feedCommand({ ...fed, exec, target, what, input: asked(fed.input) });
    },
    cancelPrestarted: (pod) => kindOf(pod).prestarted.cancel(idOf(pod)),
    close() {
      for (const { prestarted } of [starts, hooks]) prestarted.close();
    },
  };
}

/** What the command reads after its question. */
async function* inputOf(
  { inputs, onGiven, isGiven, isHealthy }: StartOptions,
  { pack }: Kind,
): AsyncGenerator<Uint8Array> {
  if (inputs !== undefined) {
    yield Buffer.from(words.inputs);
    yield* pack(inputs);
    onGiven?.();
  }
  const word = isHealthy ? words.start : words.launch;
  yield Buffer.from(isGiven ? `${word} given\n` : `${word}\n`);
}

/** Whether a start failed since the pod does not have the inputs. */
export function isNeverGiven(error: unknown): boolean {
  return error instanceof ExecFailure && error.exitCode === NEVER_GIVEN;
}

/** Whether a pod that a start failed in has its inputs. */
export function hasTaken(error: unknown): boolean {
  return error instanceof ExecFailure && error.exitCode === 1;
}

function idOf({ metadata: { uid = "" } }: Pod): string {
  return uid;
}
