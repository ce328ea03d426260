import type { Exec } from "../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../crds/client/exec/exec-outcome.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { PROOF_MS } from "../pod/program-runs.ts";
import { type OverlayPod, overlayCommand, POD_PACE } from "../snapshots/pods/overlay-pod.ts";
import { fedScript, feedCommand } from "../snapshots/streams/feed-command.ts";
import { ANSWER, asked, createPrestartedCommands } from "../snapshots/streams/prestarted-commands.ts";
import { healthOf, healthyFunction } from "./health-check.ts";
import { LAUNCHER_FOLDER, startsOnClaim } from "./launch-command.ts";

/** Begins the start, before which the command changes nothing. */
const LAUNCH = Buffer.from("launch\n");
/** The same, and waits for the program's health. */
const START = Buffer.from("start\n");
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
  pause=10000
  until "$@"; do
    [ ! -e $d/stop ] && [ ! -e $d/term ] || { echo "it is being stopped"; return 1; }
    now
    [ "$up" -lt "$end" ] || { echo "$why"; return 1; }
    "$b" usleep "$pause"
    [ "$pause" -ge 500000 ] || pause=$((pause + pause / 8))
  done
}
begin() {
  read -r word && [ "$word" = ask ] && echo ${ANSWER} || return 1
  read -r word || return 1
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
   * @param options.isHealthy whether to wait until it is healthy, for 5 s. @default false
   * @param options.isAgain whether that was tried before: then it is looked at once
   * @throws ExecFailure if the program ends first or is not healthy yet, or the pod cannot start it
   * @throws as `Exec` does
   */
  start(pod: Pod, options: { isHealthy?: boolean; isAgain?: boolean; signal: AbortSignal }): Promise<void>;
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
    async start(pod, { isHealthy = false, isAgain = false, signal }) {
      const fed = { input: only(isHealthy ? START : LAUNCH), signal, timeoutMs: LIMIT_MS };
      const command = await prestarted.take(idOf(pod), signal);
      if (command !== undefined) return await command.feed(fed);
      const target = commandFor(pod, isAgain ? LOOK_SECONDS : PATIENCE_SECONDS);
      await feedCommand({ ...fed, exec, target, what: WHAT, input: asked(fed.input) });
    },
    cancelPrestarted: (pod) => prestarted.cancel(idOf(pod)),
    close: prestarted.close,
  };
}

async function* only(piece: Uint8Array): AsyncGenerator<Uint8Array> {
  yield piece;
}

function idOf({ metadata: { uid = "" } }: Pod): string {
  return uid;
}
