import { lstat, lutimes, readdir, readFile, readlink, rm, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "../../../../crds/client/clock.ts";
import { sleep } from "../../../../crds/waits.ts";

/** A lock of another machine or pod, whose processes are not visible here: after this time its pod was replaced. */
const OTHERS_MS = 60_000;
const RETRY_MS = 20;
const LOCK = ".lock";

/**
 * Runs work with exclusive access to a tenant's folder. Commands of an earlier version that share the volume use the
 * same lock (docs/decisions/snapshots.md#archives-change-under-a-lock). Calls of one process for one folder must not
 * overlap, since the process is the holder.
 *
 * @throws Error if the folder cannot be written, and the signal's reason
 */
export async function withVolumeLock<T>(
  folder: string,
  options: { signal: AbortSignal; podUid?: string | undefined; clock?: Clock | undefined },
  work: () => Promise<T>,
): Promise<T> {
  const { signal, podUid, clock = systemClock } = options;
  const place = await placeOf(podUid);
  const own = `${place}.${process.pid}.${await startTime(process.pid)}`;
  let oldest: string | undefined;
  while (oldest === undefined) {
    oldest = await take(folder, { own, place });
    if (oldest === undefined) await sleep(RETRY_MS, { clock, signal });
  }
  try {
    return await work();
  } finally {
    // A process that was suspended for a minute has lost the lock, which may now have another holder.
    if ((await holderOf(join(folder, LOCK))) === oldest) {
      await rm(join(folder, LOCK), { force: true });
      const others = (await readdir(folder)).filter((name) => name.startsWith(`${LOCK}.`));
      await Promise.all(others.map((other) => rm(join(folder, other), { force: true })));
    }
  }
}

/** @returns the holder that `.lock` names after the lock was taken; undefined if it was not taken */
async function take(folder: string, { own, place }: { own: string; place: string }): Promise<string | undefined> {
  const first = join(folder, LOCK);
  if (await link(own, first)) return own;
  const oldest = await holderOf(first);
  if (oldest === undefined) return undefined;
  // A process that took the lock over from a dead holder has a link with that holder's name.
  let [at, holder] = [first, oldest];
  for (;;) {
    const next = join(folder, `${LOCK}.${holder}`);
    const taker = await holderOf(next);
    if (taker === undefined) break;
    [at, holder] = [next, taker];
  }
  const next = join(folder, `${LOCK}.${holder}`);
  if (!(await isGone(at, { holder, place })) || !(await link(own, next))) return undefined;
  // If the lock was released in the meantime, it has another holder or none.
  if ((await holderOf(first)) === oldest) return oldest;
  await unlink(next);
  return undefined;
}

/** Creates a link, and returns whether this call created it: of concurrent calls, only one does. */
async function link(target: string, path: string): Promise<boolean> {
  try {
    await symlink(target, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function holderOf(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

async function isGone(path: string, { holder, place }: { holder: string; place: string }): Promise<boolean> {
  const [held, pid, start] = holder.split(".");
  if (held === place) return start !== (await startTime(Number(pid)));
  try {
    const ageMs = systemClock.now() - (await lstat(path)).mtimeMs;
    // A clock was ahead or is behind now. Start the minute here, or the lock could stay for as long as the clocks
    // differ.
    if (ageMs < 0) await lutimes(path, systemClock.now() / 1000, systemClock.now() / 1000);
    return ageMs > OTHERS_MS;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** The scope of process ids: a boot of a machine, and a pod in it. */
async function placeOf(podUid: string | undefined): Promise<string> {
  const [boot = ""] = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).split("-");
  return podUid === undefined ? boot : `${boot}-${podUid.replaceAll("-", "")}`;
}

/** In ticks since the boot; undefined if the process is gone. */
async function startTime(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? undefined : fields[19];
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
