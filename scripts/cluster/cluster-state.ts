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

/** What is written down of a cluster, so that any later process can find, show and stop it. */
export interface ClusterState {
  readonly name: string;
  readonly kind: "control-plane" | "complete";
  readonly version: string;
  readonly server: string;
  /** In the order in which they were started. */
  readonly processes: readonly RecordedProcess[];
  /** Which ports, bridge and pod network a complete cluster has; see `slot.ts`. */
  readonly slot?: number;
  /** Of a complete cluster, once it is up. */
  readonly policies?: Policies;
  /** The process that takes it down when it ends; without one, it stays until `down`. */
  readonly owner?: ProcessIdentity;
}

/** Returns what is written down of the cluster in a folder, or undefined when there is none. */
export function readClusterState(folder: string): ClusterState | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "cluster.json"), "utf8")) as ClusterState;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Error(`Cannot read ${join(folder, "cluster.json")}: ${(error as Error).message}`, { cause: error });
  }
}

/** Returns a process that the cluster in a folder has started, or undefined when none of that name is written down. */
export function findProcess(folder: string, name: string): RecordedProcess | undefined {
  return readClusterState(folder)?.processes.find((recorded) => recorded.name === name);
}

/** Writes it down, whole or not at all. */
export function writeClusterState(folder: string, state: ClusterState): void {
  const path = join(folder, "cluster.json");
  writeFileSync(`${path}.new`, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Takes a process that has been stopped out of what is written down. */
export function forgetProcess(folder: string, name: string): void {
  changeState(folder, (state) => ({
    ...state,
    processes: state.processes.filter((recorded) => recorded.name !== name),
  }));
}

/** Writes down whether a cluster's network policies are enforced. */
export function recordPolicies(folder: string, policies: Policies): void {
  changeState(folder, (state) => ({ ...state, policies }));
}

/** Writes down who takes the cluster down when it ends. */
export function recordOwner(folder: string, owner: ProcessIdentity): void {
  changeState(folder, (state) => ({ ...state, owner }));
}

/** Adds a process to what is written down, in place of an earlier one with the same name. */
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

/** Runs `work` while no other command is at work on the cluster of that name. */
export function withClusterLock<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  const what = `another command on the cluster "${name}"`;
  return withFileLock(join(clustersFolder(), `${name}.lock`), { what, limitMs: LOCK_LIMIT_MS }, work);
}
