/** By how much the times of two clocks that are read in a row, and of the kernel's ticks, are apart. */
const CLOCK_SECONDS = 0.05;

/** The clocks of a pod at one moment. */
export interface PodTime {
  /** What a file's ctime is that changes now, as busybox shows it in UTC. */
  readonly now: string;
  /** Seconds since the node's start. */
  readonly uptime: number;
}

/**
 * For a shell whose `$b` is busybox: says the time that `readPodTime` reads. No file is made for it: what a process has
 * below `/proc` is as old as the process.
 */
export const SAY_POD_TIME = `echo "answer at $(TZ=UTC0 "$b" stat -L -c %z /proc/self/stat) $("$b" cat /proc/uptime)"`;

const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}`;
const POD_TIME = new RegExp(`^answer at (${TIME}) \\+0000 (\\d+\\.\\d+) `, "m");

/** The time that a script has said in the middle of what it wrote. */
export function readPodTime(output: string): PodTime | undefined {
  const [, now, uptime] = POD_TIME.exec(output) ?? [];
  return now === undefined ? undefined : { now, uptime: Number(uptime) };
}

/** For a shell whose `$b` is busybox: says the type of the file system that `$folder` is on. */
export const SAY_FILE_SYSTEM = `echo "file system $("$b" stat -f -c %t "./$folder")"`;

/** Whether the clock may have been set back in between, so that what was changed since can have a time before. */
export function wasSetBack(before: PodTime, after: PodTime): boolean {
  // What a clock says before and after a start of its node cannot be compared.
  if (after.uptime < before.uptime) return true;
  const [started, startedNow] = [before, after].map(
    ({ now, uptime }) => Date.parse(`${now.replace(" ", "T").slice(0, 23)}Z`) / 1000 - uptime,
  ) as [number, number];
  return !(startedNow >= started - CLOCK_SECONDS);
}
