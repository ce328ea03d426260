import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readIfThere, unlessGone } from "../process/read-if-there.ts";
import { waitUntil } from "../process/wait-until.ts";

/**
 * Makes a control group of that name at the root of every hierarchy, so that a kubelet keeps its pods below it and away
 * from those of another kubelet, which would take them for orphans and kill them.
 */
export function createControlGroup(name: string): void {
  const all = hierarchies();
  const mixed = all.some(({ version }) => version === 1);
  for (const { mountPoint, version } of all) {
    // Beside version 1 an empty version 2 hierarchy only serves systemd; the kubelet makes its own group there.
    if (mixed && version === 2) continue;
    const folder = join(mountPoint, name);
    mkdirSync(folder, { recursive: true });
    if (version === 2) {
      for (const parent of [mountPoint, folder]) enableControllers(parent);
    } else if (existsSync(join(folder, "cpuset.cpus"))) {
      // Empty in a new group of version 1, and no process may enter one where they are.
      for (const file of ["cpuset.cpus", "cpuset.mems"]) {
        writeFileSync(join(folder, file), readFileSync(join(mountPoint, file)));
      }
    }
  }
}

/**
 * Kills every process in a control group of that name or below it, and removes it.
 *
 * @throws Error when processes are left after 60 s
 */
export async function removeControlGroup(name: string): Promise<void> {
  await waitUntil(() => killControlGroup(name) === 0, {
    what: `the processes in the control group ${name} to end`,
    limitMs: 60_000,
    intervalMs: 20,
  });
  await waitUntil(() => foldersOf(name).every(removeTree), {
    what: `the control group ${name} to be empty`,
    limitMs: 60_000,
    intervalMs: 20,
  });
}

/** Kills every process in a control group of that name or below it; returns how many there were. */
export function killControlGroup(name: string): number {
  const folders = foldersOf(name);
  const pids = new Set(folders.flatMap(processesIn));
  for (const pid of pids) kill(pid);
  for (const folder of folders) thaw(folder);
  return pids.size;
}

function foldersOf(name: string): string[] {
  return hierarchies().map(({ mountPoint }) => join(mountPoint, name));
}

interface Hierarchy {
  readonly mountPoint: string;
  readonly version: 1 | 2;
}

function hierarchies(): Hierarchy[] {
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").trim().split("\n");
  return mounts.flatMap((line): Hierarchy[] => {
    const [before = "", after = ""] = line.split(" - ");
    const type = after.split(" ")[0];
    const mountPoint = before.split(" ")[4] ?? "";
    if (type === "cgroup") return [{ mountPoint, version: 1 }];
    return type === "cgroup2" ? [{ mountPoint, version: 2 }] : [];
  });
}

function enableControllers(folder: string): void {
  const available = readFileSync(join(folder, "cgroup.controllers"), "utf8").trim();
  if (available === "") return;
  for (const controller of available.split(" ")) {
    try {
      writeFileSync(join(folder, "cgroup.subtree_control"), `+${controller}`);
    } catch (error) {
      // One that the machine does not let go of; a kubelet that needs it says so by name.
      if (!["EINVAL", "EBUSY", "EOPNOTSUPP"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
}

function processesIn(folder: string): number[] {
  const own = readIfThere(join(folder, "cgroup.procs")) ?? "";
  return [...own.split("\n").filter(Boolean).map(Number), ...childGroups(folder).flatMap(processesIn)];
}

/** A process that version 1 has frozen does not end before that is taken back. */
function thaw(folder: string): void {
  const state = join(folder, "freezer.state");
  if (existsSync(state)) unlessGone(() => writeFileSync(state, "THAWED"));
  for (const child of childGroups(folder)) thaw(child);
}

function childGroups(folder: string): string[] {
  return (unlessGone(() => readdirSync(folder, { withFileTypes: true })) ?? [])
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(folder, name));
}

/** Whether the group is gone; a group whose last process is just ending can be removed a little later. */
function removeTree(folder: string): boolean {
  const children = childGroups(folder).map(removeTree);
  if (!children.every(Boolean)) return false;
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return true;
    if (code === "EBUSY") return false;
    throw error;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
