import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { systemEnvironment } from "./system-environment.ts";

export interface RunWithLinesOptions {
  folder?: string;
  environment?: NodeJS.ProcessEnv;
  limitMs: number;
  /** Called with each line of its standard output and standard error. */
  onLine: (line: string) => void;
}

const KEPT_LINES = 15;

/**
 * Runs a long command to its end and hands on what it writes line by line; it ends with this process.
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
    // A group of its own, so that what it has started in turn ends with it.
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
