import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { logTail } from "./log-tail.ts";
import { type ProcessIdentity, readProcessIdentity } from "./process-identity.ts";
import { systemEnvironment } from "./run-command.ts";

export interface StartProgramOptions {
  /** The program's name in messages. */
  name: string;
  command: string;
  arguments: readonly string[];
  /** The file that the program's output is appended to. */
  logPath: string;
  /**
   * `parent`: the kernel kills it when this process ends, however it ends. `detached`: it stays until it is stopped.
   */
  lifetime: "parent" | "detached";
  environment?: NodeJS.ProcessEnv;
  folder?: string;
}

export interface Program {
  readonly name: string;
  readonly identity: ProcessIdentity;
  readonly logPath: string;
  /** Resolves with the exit status when the program ends. */
  readonly exited: Promise<string>;
  /** The exit status, without waiting for `exited`. */
  ending(): string | undefined;
}

/**
 * Starts a program in the background, with its output in a log file.
 *
 * @throws Error when it cannot be started at all
 */
export async function startProgram(options: StartProgramOptions): Promise<Program> {
  mkdirSync(dirname(options.logPath), { recursive: true });
  const log = openSync(options.logPath, "a", 0o600);
  // The parent-death signal survives exec. So the process keeps its pid, and the kernel ends it with its parent.
  const [command, ...prefix] =
    options.lifetime === "parent" ? ["setpriv", "--pdeathsig", "KILL", "--", options.command] : [options.command];
  const child = spawn(command as string, [...prefix, ...options.arguments], {
    stdio: ["ignore", log, log],
    detached: true,
    env: systemEnvironment(options.environment),
    ...(options.folder === undefined ? {} : { cwd: options.folder }),
  });
  closeSync(log);
  let ending: string | undefined;
  const exited = new Promise<string>((resolve) => {
    child.once("exit", (code, signal) => {
      ending = signal ? `signal ${signal}` : `exit status ${code}`;
      resolve(ending);
    });
  });
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (cause) => {
      reject(new Error(`Cannot start ${options.name} (${options.command}): ${cause.message}`, { cause }));
    });
  });
  const identity = readProcessIdentity(child.pid as number);
  if (identity === undefined) {
    throw new Error(`Cannot start ${options.name}: ${await exited}\n${logTail(options.logPath)}`);
  }
  child.unref();
  return { name: options.name, identity, logPath: options.logPath, exited, ending: () => ending };
}
