import { execFile } from "node:child_process";
import { systemEnvironment } from "./system-environment.ts";

export interface RunCommandOptions {
  folder?: string;
  environment?: NodeJS.ProcessEnv;
  /** @default 60000 */
  limitMs?: number;
  signal?: AbortSignal;
}

/**
 * Runs a command to its end and returns what it wrote to its standard output.
 *
 * @throws Error with the end of what it wrote to its standard error, when it fails or takes too long
 */
export function runCommand(
  command: string,
  commandArguments: readonly string[],
  options: RunCommandOptions = {},
): Promise<string> {
  const limitMs = options.limitMs ?? 60_000;
  return new Promise((resolve, reject) => {
    execFile(
      command,
      commandArguments,
      {
        maxBuffer: 64 * 1024 * 1024,
        timeout: limitMs,
        killSignal: "SIGKILL",
        ...(options.folder === undefined ? {} : { cwd: options.folder }),
        env: systemEnvironment(options.environment),
        ...(options.signal === undefined ? {} : { signal: options.signal }),
      },
      (cause, stdout, stderr) => {
        if (!cause) return resolve(stdout);
        const why = cause.killed ? `it took longer than ${limitMs / 1000} s` : describe(cause);
        const end = stderr.trimEnd().split("\n").slice(-15).join("\n");
        reject(
          new Error(`Cannot run ${[command, ...commandArguments].join(" ")}: ${why}\n${end}`.trimEnd(), { cause }),
        );
      },
    );
  });
}

function describe(
  cause: Error & { code?: number | string | null | undefined; signal?: NodeJS.Signals | null },
): string {
  if (cause.code === "ENOENT") return "there is no such program";
  if (cause.signal) return `it ended with signal ${cause.signal}`;
  return typeof cause.code === "number" ? `it ended with status ${cause.code}` : cause.message;
}
