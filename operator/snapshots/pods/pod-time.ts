/** The difference that reading two clocks one after the other, and the kernel's ticks, can cause. */
const CLOCK_SECONDS = 0.05;

/** The clocks of a pod at one moment. */
export interface PodTime {
  /** The ctime of a file that changes now, in the format of busybox, in UTC. */
  readonly now: string;
  /** Seconds since the node's start. */
  readonly uptime: number;
}

/**
 * For a shell whose `$b` is busybox: writes the time for `readPodTime`. It creates no file, since the files of a
 * process in `/proc` are as old as the process.
 */
export const SAY_POD_TIME = `echo "answer at $(TZ=UTC0 "$b" stat -L -c %z /proc/self/stat) $("$b" cat /proc/uptime)"`;

const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}`;
const POD_TIME = new RegExp(`^answer at (${TIME}) \\+0000 (\\d+\\.\\d+) `, "m");

/** The time in the output of a script. */
export function readPodTime(output: string): PodTime | undefined {
  const [, now, uptime] = POD_TIME.exec(output) ?? [];
  return now === undefined ? undefined : { now, uptime: Number(uptime) };
}

/** For a shell whose `$b` is busybox: writes the type of the file system of `$folder`. */
export const SAY_FILE_SYSTEM = `echo "file system $("$b" stat -f -c %t "./$folder")"`;

/** Whether the clock may have been set back in between, so that a later change can have an earlier time. */
export function wasSetBack(before: PodTime, after: PodTime): boolean {
  // Times before and after a restart of the node cannot be compared.
  if (after.uptime < before.uptime) return true;
  const [started, startedNow] = [before, after].map(
    ({ now, uptime }) => Date.parse(`${now.replace(" ", "T").slice(0, 23)}Z`) / 1000 - uptime,
  ) as [number, number];
  return !(startedNow >= started - CLOCK_SECONDS);
}
