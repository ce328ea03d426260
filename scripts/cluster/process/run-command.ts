import { execFile, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { SYSTEM_FOLDERS } from "../sources/find-on-path.ts";

export interface RunCommandOptions {
  folder?: string;
  environment?: NodeJS.ProcessEnv;
  /** @default 60000 */
  limitMs?: number;
  signal?: AbortSignal;
}

/**
 * Runs a command to its end and returns its standard output.
 *
 * @throws Error with the end of its standard error, if it fails or takes too long
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

/**
 * Returns the environment with the folders of system programs in its PATH, which a root shell that came through `su`
 * does not have and which containerd looks for runc in.
 */
export function systemEnvironment(environment: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const folders = (environment.PATH ?? "").split(":").filter((folder) => folder !== "");
  const missing = SYSTEM_FOLDERS.filter((folder) => !folders.includes(folder));
  return { ...environment, PATH: [...folders, ...missing].join(":") };
}

interface RunWithLinesOptions {
  folder?: string;
  environment?: NodeJS.ProcessEnv;
  limitMs: number;
  /** Called with each line of its standard output and standard error. */
  onLine: (line: string) => void;
}

const KEPT_LINES = 15;

/**
 * Runs a long command to its end and passes its output on line by line. The command ends with this process.
 *
 * @throws Error with its last lines when it fails or takes too long
 */
export function runWithLines(
  command: string,
  commandArguments: readonly string[],
  options: RunWithLinesOptions,
): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const last: string[] = [];
    // It gets its own process group, so that processes that it has started end with it.
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", command, ...commandArguments], {
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      cwd: options.folder,
      env: systemEnvironment(options.environment),
    });
    const killGroup = (): void => {
      if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
        process.kill(-child.pid, "SIGKILL");
    };
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      killGroup();
    }, options.limitMs);
    process.once("exit", killGroup);
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        last.push(line);
        if (last.length > KEPT_LINES) last.shift();
        options.onLine(line);
      });
    }
    const finish = (why: string | undefined, cause?: Error): void => {
      clearTimeout(timer);
      process.removeListener("exit", killGroup);
      if (why === undefined) resolve();
      else
        reject(
          new Error(`Cannot run ${[command, ...commandArguments].join(" ")}: ${why}\n${last.join("\n")}`, { cause }),
        );
    };
    child.once("error", (cause) => finish(cause.message, cause));
    child.once("close", (code, signal) => {
      if (late) finish(`it took longer than ${options.limitMs / 60_000} minutes`);
      else if (code === 0) finish(undefined);
      else finish(signal ? `it ended with signal ${signal}` : `it ended with status ${code}`);
    });
  });
}
