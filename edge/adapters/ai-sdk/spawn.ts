import type { HarnessV1NetworkSandboxSession } from "@ai-sdk/harness";
import type { AttachedProcess, Client } from "../../client/index.ts";
import { exitCodeOf, shell } from "../sandbox.ts";

/** A process as the harness handles it. */
type Spawned = Awaited<ReturnType<HarnessV1NetworkSandboxSession["spawn"]>>;

/** From SIGTERM to SIGKILL, as for a command whose time is up. */
const KILL_MS = 2000;

/** Returns a function that starts a process in the background, whose output it follows from the start. */
export function createSpawn(
  client: Client,
  place: { tenant: string; workload: string },
): (
  line: string,
  options: {
    cwd: string;
    env: Record<string, string> | undefined;
    timeoutSeconds: number;
    signal: AbortSignal | undefined;
  },
) => Promise<Spawned> {
  const { tenant: id, workload } = place;

  async function attachTo(pid: number, signal: AbortSignal | undefined): Promise<AttachedProcess> {
    try {
      signal?.throwIfAborted();
      return await client.processes.attach(place, pid, { stdoutFrom: 0, stderrFrom: 0 });
    } catch (error) {
      // The caller never gets its pid.
      await client.processes.kill(place, pid, { name: "SIGKILL" }).catch(() => undefined);
      throw error;
    }
  }

  return async (line, { cwd, env, timeoutSeconds, signal }) => {
    const command = shell(line);
    signal?.throwIfAborted();
    // An abort waits for the answer: it has the pid, without which the process could not be ended.
    const started = await client.call("POST /api/v1/tenants/{id}/instances/{workload}/processes", {
      path: { id, workload },
      body: { command, cwd, timeoutSeconds, background: true, ...(env !== undefined && { env }) },
    });
    const process = await attachTo(started.pid, signal);
    const { pid, stdout, stderr, exited } = process;
    const hasEnded = exited.then(
      () => true,
      () => true,
    );

    async function kill(): Promise<void> {
      // A process that has ended gets no signal.
      await process.kill().catch(() => undefined);
      let timer: NodeJS.Timeout | undefined;
      const isLate = new Promise<false>((resolve) => {
        timer = setTimeout(() => resolve(false), KILL_MS);
      });
      if (!(await Promise.race([hasEnded, isLate]))) await process.kill("SIGKILL").catch(() => undefined);
      clearTimeout(timer);
    }

    const abort = (): void => void kill();
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted === true) abort();
    void hasEnded.then(() => signal?.removeEventListener("abort", abort));
    return {
      ...{ pid, stdout, stderr, kill },
      async wait() {
        const ended = await exited;
        signal?.throwIfAborted();
        return { exitCode: exitCodeOf(ended) };
      },
    };
  };
}
