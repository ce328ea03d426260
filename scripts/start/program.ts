import { spawn } from "node:child_process";

export interface Program {
  name: string;
  /** Resolves with how it ended, in words. */
  exited: Promise<string>;
  /** Asks it to stop and waits; kills it after 40 s, which is longer than an edge lets its last requests take. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): void;
}

const STOP_LIMIT_MS = 40_000;

/** Starts a long-running program of this project with its output on the terminal. */
export function startProgram(options: {
  name: string;
  command: string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
}): Program {
  const [file = "", ...commandArguments] = options.command;
  const child = spawn(file, commandArguments, {
    cwd: options.cwd,
    env: options.env,
    stdio: ["ignore", "inherit", "inherit"],
  });
  const exited = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
  });
  return {
    name: options.name,
    exited,
    async stop() {
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_LIMIT_MS);
      child.kill("SIGTERM");
      await exited;
      clearTimeout(timer);
    },
    kill: () => void child.kill("SIGKILL"),
  };
}
