import { LAUNCHER_FOLDER } from "../../launcher/launch-command.ts";
import { BELOW_FUNCTION, NOW_FUNCTION } from "../../launcher/shell-functions.ts";

/** A program that is stopped for longer misses what it waits for. */
const MOST_SECONDS = 2;

/** More takes longer to read than a program may be stopped. */
export const MOST_FROZEN_BYTES = 64 * 1024 * 1024;

/** The processes that are stopped, those that were stopped last first, in one line. */
const LIST = "frozen";

/**
 * Functions for a shell whose `$b` is busybox, in a container with a launcher. `freeze` stops the program and all that
 * it has started, so that their files stay as they are at one moment. `thaw` lets them go on.
 *
 * Those above are stopped first, each before the next one, and go on last: a shell with job control that sees a
 * process below it stop would go on without it. What was stopped before stays stopped.
 *
 * Another process lets them go on after two seconds, and again until this shell has ended: it may be slow, or killed.
 * It knows a process before that is stopped.
 */
export const FREEZE_FUNCTIONS = `list=${LAUNCHER_FOLDER}/${LIST} frozen= watch= frozeAt= froze=
${NOW_FUNCTION}
${BELOW_FUNCTION}
go_on() { for pid; do kill -CONT "$pid" 2> /dev/null; done; }
has_stopped() {
  read -r state 2> /dev/null < /proc/"$1"/stat || return 0
  case "\${state##*) }" in [TtZX]*) return 0 ;; esac
  return 1
}
stop() {
  frozen="$1 $frozen"
  echo "$frozen" 2> /dev/null > $list || return 1
  kill -STOP "$1" 2> /dev/null || return 0
  looks=0
  until has_stopped "$1" || [ $looks = 60 ]; do
    looks=$((looks + 1))
    [ $looks -lt 10 ] || "$b" usleep 2000
  done
}
freeze() {
  "$b" true 2> /dev/null > $list || return 0
  (
    "$b" sleep ${MOST_SECONDS}
    while
      read -r pids < $list && go_on $pids
      kill -0 $$ 2> /dev/null
    do "$b" sleep 1; done
    "$b" rm -f $list
  ) < /dev/null > /dev/null 2>&1 &
  watch=$!
  now; frozeAt="$up"
  # What was started in the meantime is found in the next round.
  for round in 1 2 3 4; do
    now
    [ $((up - frozeAt)) -lt ${MOST_SECONDS * 50} ] || break
    pids="$(below ZXTt "$frozen")"
    [ -n "$pids" ] || break
    for pid in $pids; do stop "$pid" || break 2; done
  done
}
thaw() {
  [ -n "$watch" ] || return 0
  go_on $frozen
  kill "$watch" 2> /dev/null
  watch=
  now; froze=$((up - frozeAt))
  [ $froze -le ${MOST_SECONDS * 100} ] || froze=${MOST_SECONDS * 100}
  "$b" rm -f $list
}`;

/**
 * For a shell: lets processes go on that a checkpoint has stopped, if it was cut off before it did.
 *
 * @param folder of the launcher
 */
export function endFreeze(folder: string): string {
  return `if [ -s ${folder}/${LIST} ] && read -r pids < ${folder}/${LIST}; then
  for pid in $pids; do kill -CONT "$pid" 2> /dev/null; done
fi`;
}

const FROZE = /^froze (\d+)$/m;

/** For how many milliseconds a program was stopped, in the output of a script; undefined if it was not. */
export function readFrozen(output: string): number | undefined {
  const [, ticks] = FROZE.exec(output) ?? [];
  return ticks === undefined ? undefined : Number(ticks) * 10;
}
