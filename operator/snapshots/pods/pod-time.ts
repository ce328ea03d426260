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
  /** Seconds since the node's start, just before and just after `now` was read. */
  readonly uptime: readonly [before: number, after: number];
}

/**
 * For a shell whose `$b` is busybox: writes the time for `readPodTime`. It creates no file, since the files of a
 * process in `/proc` are as old as the process. A busy node may stop the shell between the clocks: then it reads them
 * again, up to 40 times. The 1 before the digits keeps a shell from taking those of `0.08` as octal.
 */
export const SAY_POD_TIME = `left=40
while
  read -r up idle < /proc/uptime
  at="$(TZ=UTC0 "$b" stat -L -c %z /proc/self/stat)"
  read -r later idle < /proc/uptime
  left=$((left - 1))
  [ $left -gt 0 ] && [ $((1\${later%.*}\${later#*.} - 1\${up%.*}\${up#*.})) -gt 1 ]
do :; done
echo "answer at $at $up $later"`;

const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}`;
const POD_TIME = new RegExp(`^answer at (${TIME}) \\+0000 (\\d+\\.\\d+) (\\d+\\.\\d+)$`, "m");

/** The time in the output of a script. */
export function readPodTime(output: string): PodTime | undefined {
  const [, now, before, after] = POD_TIME.exec(output) ?? [];
  return now === undefined ? undefined : { now, uptime: [Number(before), Number(after)] };
}

/** For a shell whose `$b` is busybox: writes the type of the file system of `$folder`. */
export const SAY_FILE_SYSTEM = `echo "file system $("$b" stat -f -c %t "./$folder")"`;

/** Whether the clock may have been set back in between, so that a later change can have an earlier time. */
export function wasSetBack(before: PodTime, after: PodTime): boolean {
  // Times before and after a restart of the node cannot be compared.
  if (after.uptime[0] < before.uptime[1]) return true;
  const [latest, earliest] = [secondsOf(before) - before.uptime[0], secondsOf(after) - after.uptime[1]];
  return !(earliest >= latest - CLOCK_SECONDS);
}

/** A ctime: a file with an earlier one is read as it is, also where memory is mapped to it. */
export function settledBefore({ now }: PodTime): string {
  const latest = new Date(millisecondsOf(now) - SETTLED_MS);
  return latest.toISOString().replace("T", " ").slice(0, 23);
}

function secondsOf({ now }: PodTime): number {
  return millisecondsOf(now) / 1000;
}

function millisecondsOf(ctime: string): number {
  return Date.parse(`${ctime.replace(" ", "T").slice(0, 23)}Z`);
}
