import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { logTail } from "./log-tail.ts";
import { type ProcessIdentity, readProcessIdentity } from "./process-identity.ts";
import { systemEnvironment } from "./run-command.ts";

export interface StartProgramOptions {
  /** What the program is called in messages. */
  name: string;
  command: string;
  arguments: readonly string[];
  /** Receives what the program writes; appended to. */
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
  /** Resolves when the program ends, with what it ended with. */
  readonly exited: Promise<string>;
  /** What it ended with, while `exited` is not awaited. */
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
  // The parent-death signal survives exec, so the process keeps the pid and is under the kernel's eye from here on.
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
