import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";

const EXIT_LIMIT_MS = 120_000;
/** It starts in a fifth of the time that Node takes to load TypeScript, and a test starts one for each write. */
const bun = join(import.meta.dirname, "../../node_modules/.bin/bun");

/** Kinds whose writes count. */
export const countedKinds = ["jobs", "pods", "tenancyclaims", "tenancyworkloads"];

/** What the process is told of usage records and events: it adds them, and dies as well right after such a record. */
export interface DyingRecorder {
  readonly TENANCY_SINK?: string;
  readonly TENANCY_SINK_FOLDER?: string;
  readonly RECORDS_USAGE: string;
  readonly TENANCY_SNAPSHOT_STORE?: string;
  readonly TENANCY_SNAPSHOT_ENDPOINT?: string;
  readonly AWS_ACCESS_KEY_ID?: string;
  readonly AWS_SECRET_ACCESS_KEY?: string;
}

/** What the process is told of builds. */
export interface DyingBuilder {
  readonly TENANCY_REGISTRY: string;
  /** Folder with a folder for each pod, in which commands are run on this machine. */
  readonly PODS_FOLDER: string;
}

/**
 * Starts an operator in a process of its own, which kills itself with SIGKILL right after its n-th write to these
 * kinds.
 */
export function startDyingOperator(
  kubeconfigPath: string,
  writes: number,
  told?: DyingBuilder | DyingRecorder,
): { exited: Promise<string>; kill(): void } {
  const script = join(import.meta.dirname, "operator-that-dies.ts");
  const env = { ...process.env, ...told, KUBECONFIG: kubeconfigPath };
  const child: ChildProcess = spawn(bun, [script, String(writes)], {
    env,
    stdio: ["ignore", "inherit", "inherit"],
  });
  const exited = new Promise<string>((resolve) => {
    const timer = setTimeout(() => child.kill("SIGTERM"), EXIT_LIMIT_MS);
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      resolve(signal ?? `exit code ${code}`);
    });
  });
  return { exited, kill: () => void child.kill("SIGKILL") };
}

/**
 * How many of the writes of an undisturbed operator another one makes at least: a slow machine has it tell again what it
 * waits for.
 */
export function leastWrites(writes: readonly string[]): number {
  return Math.min(writes.length - 1, writes.filter((write, index) => write !== writes[index - 1]).length);
}
