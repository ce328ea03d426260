/** What the ticks of both clocks can add to the difference of two readings, each of which took up to two ticks. */
const CLOCK_SECONDS = 0.05;

/**
 * After this time, the kernel has written out all changes through mapped memory. It shows a later time from the next
 * such change on.
 */
const SETTLED_MS = 120_000;

/** The clocks of a pod at one moment. */
export interface PodTime {
  /** The ctime of a file that changes now, in the format of busybox, in UTC. */
  readonly now: string;
  /** Seconds since 1970, read before `now`. */
  readonly clock: number;
  /** Seconds since the node's start, just before and just after `clock` was read. */
  readonly uptime: readonly [before: number, after: number];
}

/**
 * For a shell whose `$b` is busybox: writes the time for `readPodTime`. It creates no file, since the files of a
 * process in `/proc` are as old as the process. The shell itself reads the two clocks that are compared: on a busy
 * node, to start a program in between takes 0.2 s. If the node stops the shell between them, it reads them again, up to
 * 40 times. The 1 before the digits keeps a shell from taking those of `0.08` as octal. An old busybox, whose shell
 * does not know the clock, shows 0.0: the clock then counts as set back.
 */
export const SAY_POD_TIME = `left=40
while
  read -r up idle < /proc/uptime
  clock=\${EPOCHREALTIME:-0.0}
  read -r later idle < /proc/uptime
  left=$((left - 1))
  [ $left -gt 0 ] && [ $((1\${later%.*}\${later#*.} - 1\${up%.*}\${up#*.})) -gt 1 ]
do :; done
echo "answer at $(TZ=UTC0 "$b" stat -L -c %z /proc/self/stat) $clock $up $later"`;

const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}`;
const POD_TIME = new RegExp(`^answer at (${TIME}) \\+0000 (\\d+\\.\\d+) (\\d+\\.\\d+) (\\d+\\.\\d+)$`, "m");

/** The time in the output of a script. */
export function readPodTime(output: string): PodTime | undefined {
  const [, now, clock, before, after] = POD_TIME.exec(output) ?? [];
  return now === undefined ? undefined : { now, clock: Number(clock), uptime: [Number(before), Number(after)] };
}

/** For a shell whose `$b` is busybox: writes the type of the file system of `$folder`. */
export const SAY_FILE_SYSTEM = `echo "file system $("$b" stat -f -c %t "./$folder")"`;

/** Whether the clock may have been set back in between, so that a later change can have an earlier time. */
export function wasSetBack(before: PodTime, after: PodTime): boolean {
  // Times before and after a restart of the node cannot be compared.
  if (after.uptime[0] < before.uptime[1]) return true;
  const [latest, earliest] = [before.clock - before.uptime[0], after.clock - after.uptime[1]];
  return !(earliest >= latest - CLOCK_SECONDS);
}

/** A ctime: a file with an earlier one is read as it is, also where memory is mapped to it. */
export function settledBefore({ now }: PodTime): string {
  const latest = new Date(Date.parse(`${now.replace(" ", "T").slice(0, 23)}Z`) - SETTLED_MS);
  return latest.toISOString().replace("T", " ").slice(0, 23);
}
