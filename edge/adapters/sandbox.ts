import { constants } from "node:os";
import { ApiError, type Client, type RunResult } from "../client/index.ts";

/** Where a sandbox of another product is. */
export interface SandboxKey {
  readonly tenant: string;
  readonly workload: string;
}

/** How long a sandbox may take to start, and to end. */
export const WAIT_SECONDS = 180;

/** What a shell is for: all of a line, which the products pass on as it is. */
export const shell = (line: string): string[] => ["sh", "-c", line];

/** @throws Error for an id of another form */
export function keyOf(sandboxId: string): SandboxKey {
  const [tenant, workload, ...more] = sandboxId.split(":");
  if (!tenant || !workload || more.length > 0)
    throw new Error(`Cannot use the sandbox id ${JSON.stringify(sandboxId)}: it must be TENANT:WORKLOAD`);
  return { tenant, workload };
}

/** Neither name has a colon. */
export const idOf = ({ tenant, workload }: SandboxKey): string => `${tenant}:${workload}`;

/** Releases, and waits until the instance is gone. Without a claim it does nothing. */
export async function end(client: Client, { tenant, workload }: SandboxKey): Promise<void> {
  const until = performance.now() + WAIT_SECONDS * 1000;
  for (;;) {
    try {
      await client.release(tenant, workload, { wait: true });
      return;
    } catch (error) {
      if (isStatus(error, 404)) return;
      if (!isStatus(error, 504) || performance.now() > until) throw error;
    }
  }
}

/** What a promise resolves with, or undefined if the API says that it is not there. */
export async function orUndefined<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

export function isStatus(error: unknown, status: number): boolean {
  return error instanceof ApiError && error.status === status;
}

/** What a command wrote, which says so if it was cut. */
export function outputOf({ stdout, stderr, truncated }: RunResult): { stdout: string; stderr: string } {
  return { stdout, stderr: truncated === true ? `${stderr}\n[output after the first 1 MiB is left out]\n` : stderr };
}

/** An exit code as a shell shows it: 128 and the signal's number if a signal ended the process. */
export function exitCodeOf({ exitCode, signal }: { exitCode?: number; signal?: string }): number {
  return exitCode ?? 128 + (constants.signals[signal as NodeJS.Signals] ?? 0);
}

/** @throws Error for an option that tenancy has nothing for, since it would silently have no effect */
export function refuse(options: Readonly<Record<string, unknown>>, reasons: Readonly<Record<string, string>>): void {
  for (const [name, reason] of Object.entries(reasons))
    if (options[name] !== undefined) throw new Error(`Cannot use ${name}: ${reason}`);
}
