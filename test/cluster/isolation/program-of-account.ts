import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { AccountAccess } from "./account-access.ts";

/** One of our programs, as a pod runs it. */
export interface AccountProgram {
  readonly child: ChildProcess;
  readonly lines: string[];
  /** The fields of its first log line with that message. */
  logged(message: string): Promise<Record<string, unknown>>;
  /** Asks it to stop, kills it after 60 s. @returns its exit code or the signal */
  stop(): Promise<number | string>;
}

const STOP_LIMIT_MS = 60_000;

export function startProgramOf(
  access: Pick<AccountAccess, "prefix" | "env">,
  command: readonly string[],
  env: Record<string, string>,
): AccountProgram {
  const [file = "", ...parameters] = [...access.prefix, ...command];
  const child = spawn(file, parameters, { env: { ...access.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const lines: string[] = [];
  const waiters = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      lines.push(line);
      for (const look of waiters) look();
    });
  }
  const exited = new Promise<number | string>((resolve) => {
    child.once("close", (code, signal) => resolve(code ?? signal ?? "unknown"));
  });
  return {
    child,
    lines,
    logged(message) {
      const found = new Promise<Record<string, unknown>>((resolve) => {
        function look(): void {
          const line = lines.find((one) => one.includes(`"msg":${JSON.stringify(message)}`));
          if (line === undefined) return;
          waiters.delete(look);
          resolve(JSON.parse(line));
        }
        waiters.add(look);
        look();
      });
      const ended = exited.then((how) => Promise.reject(new Error(`ended with ${how}: ${lines.join("\n")}`)));
      ended.catch(() => undefined);
      return Promise.race([found, ended]);
    },
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_LIMIT_MS);
      try {
        return await exited;
      } finally {
        clearTimeout(timer);
      }
    },
  };
}
