import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { clustersFolder } from "./folders.ts";
import type { Policies } from "./policies/find-engine.ts";
import { withFileLock } from "./process/file-lock.ts";
import type { ProcessIdentity } from "./process/process-identity.ts";

const LOCK_LIMIT_MS = 120_000;

/** A process that a cluster has started. */
export interface RecordedProcess {
  readonly name: string;
  readonly identity: ProcessIdentity;
}

/** The recorded state of a cluster. With it, any later process can find, show and stop the cluster. */
export interface ClusterState {
  readonly name: string;
  readonly kind: "control-plane" | "complete";
  readonly version: string;
  readonly server: string;
  /** In the order in which they were started. */
  readonly processes: readonly RecordedProcess[];
  /** The number that determines ports, bridge and pod network of a complete cluster; see `slot.ts`. */
  readonly slot?: number;
  /** Only for a complete cluster that has started. */
  readonly policies?: Policies;
  /** The process whose end stops the cluster. Without one, the cluster runs until `down`. */
  readonly owner?: ProcessIdentity;
}

/** Returns the state of the cluster in a folder, or undefined if there is none. */
export function readClusterState(folder: string): ClusterState | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "cluster.json"), "utf8")) as ClusterState;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Error(`Cannot read ${join(folder, "cluster.json")}: ${(error as Error).message}`, { cause: error });
  }
}

/** Returns a process that the cluster in a folder has started, or undefined if none of that name is recorded. */
export function findProcess(folder: string, name: string): RecordedProcess | undefined {
  return readClusterState(folder)?.processes.find((recorded) => recorded.name === name);
}

/** Writes the state atomically. */
export function writeClusterState(folder: string, state: ClusterState): void {
  const path = join(folder, "cluster.json");
  writeFileSync(`${path}.new`, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Removes a stopped process from the state. */
export function forgetProcess(folder: string, name: string): void {
  changeState(folder, (state) => ({
    ...state,
    processes: state.processes.filter((recorded) => recorded.name !== name),
  }));
}

/** Records whether a cluster's network policies are enforced. */
export function recordPolicies(folder: string, policies: Policies): void {
  changeState(folder, (state) => ({ ...state, policies }));
}

/** Records the process whose end stops the cluster. */
export function recordOwner(folder: string, owner: ProcessIdentity): void {
  changeState(folder, (state) => ({ ...state, owner }));
}

/** Adds a process to the state. It replaces an earlier process of the same name. */
export function recordProcess(folder: string, { name, identity }: RecordedProcess): void {
  changeState(folder, (state) => {
    const others = state.processes.filter((recorded) => recorded.name !== name);
    return { ...state, processes: [...others, { name, identity }] };
  });
}

function changeState(folder: string, change: (state: ClusterState) => ClusterState): void {
  const state = readClusterState(folder);
  if (state === undefined) throw new Error(`Cannot write down what changes: ${folder} holds no cluster`);
  writeClusterState(folder, change(state));
}

/** Runs `work` while no other command changes the cluster of that name. */
export function withClusterLock<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  const what = `another command on the cluster "${name}"`;
  return withFileLock(join(clustersFolder(), `${name}.lock`), { what, limitMs: LOCK_LIMIT_MS }, work);
}
