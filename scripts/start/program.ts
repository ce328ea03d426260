import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { createBackoff } from "../../crds/client/backoff.ts";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { sleep } from "../../crds/waits.ts";
import { findOnPath } from "../cluster/sources/find-on-path.ts";

export interface Program {
  name: string;
  /** Resolves with a text about how it ended. A kept program ends only by `stop` or `kill`. */
  exited: Promise<string>;
  /**
   * Resolves with the URL that its first process sends over the channel between the two, which no other program has.
   */
  listening: Promise<string>;
  /** From now on, restarts it whenever it ends, and logs that. */
  keep(): void;
  /** Restarts a kept program with the current environment. */
  restart(): void;
  /** Sends SIGTERM and waits. Kills it after 40 s, which is longer than an edge waits for its last requests. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): void;
}

const STOP_LIMIT_MS = 40_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
/** A program that ran this long counts as healthy. */
const HEALTHY_MS = 60_000;
/** How long the lines of a program that has ended are waited for. */
const LAST_LINES_MS = 1000;

/**
 * Starts a long-running program of this project, whose output is passed on by the line. Where the system can do so, the
 * program is told to stop when this process ends, however it ends: an orphan would keep the ports, and go on at the
 * cluster.
 */
export function startProgram(options: {
  name: string;
  command: string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Takes what happens to the program. @default console.error */
  print?: (line: string) => void;
  /** Takes each line that the program writes. @default console.error */
  onLine?: (line: string) => void;
  clock?: Clock;
}): Program {
  const { name, print = console.error, onLine = console.error, clock = systemClock } = options;
  // The signal survives exec, so the process keeps its pid
  // (docs/decisions/local-cluster.md#test-control-planes-end-with-their-parent).
  const [file = "", ...commandArguments] = findOnPath("setpriv", options.env)
    ? ["setpriv", "--pdeathsig", "TERM", "--", ...options.command]
    : options.command;
  // Without jitter, each pause has its full length.
  const backoff = createBackoff({ initialMs: FIRST_PAUSE_MS, maxMs: LONGEST_PAUSE_MS, random: () => 1 });
  const ending = new AbortController();
  let isKept = false;
  let isRestarting = false;
  let { child, ended } = run();
  const listening = new Promise<string>((resolve) => {
    child.once("message", (message) => resolve((message as { listening: string }).listening));
  });
  const exited = follow();

  function run(): { child: ChildProcess; ended: Promise<string> } {
    const started = spawn(file, commandArguments, {
      cwd: options.cwd,
      env: options.env,
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    const written = [started.stdout, started.stderr].map(async (stream) => {
      if (stream === null) return;
      // A child of the program that still runs would hold its output open.
      started.once("exit", () => setTimeout(() => stream.destroy(), LAST_LINES_MS).unref());
      createInterface({ input: stream }).on("line", (line) => onLine(line));
      await once(stream, "close");
    });
    const exits = new Promise<string>((resolve) => {
      started.once("error", (error) => resolve(error.message));
      started.once("exit", (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
    });
    const ends = exits.then(async (how) => {
      await Promise.all(written);
      return how;
    });
    return { child: started, ended: ends };
  }

  async function follow(): Promise<string> {
    for (;;) {
      const startedAt = clock.now();
      const how = await ended;
      if (!isKept || ending.signal.aborted) return how;
      if (!isRestarting) {
        if (clock.now() - startedAt >= HEALTHY_MS) backoff.reset();
        const pauseMs = backoff.next();
        print(`${name} ended: ${how}; it is started again in ${pauseMs / 1000} s`);
        try {
          await sleep(pauseMs, { clock, signal: ending.signal });
        } catch {
          return how;
        }
      }
      isRestarting = false;
      ({ child, ended } = run());
      print(`${name} is started again`);
    }
  }

  return {
    name,
    exited,
    listening,
    keep() {
      isKept = true;
    },
    restart() {
      // A program that has already ended is about to be restarted anyway.
      isRestarting = child.kill("SIGTERM");
    },
    async stop() {
      ending.abort();
      const cancel = clock.after(STOP_LIMIT_MS, () => child.kill("SIGKILL"));
      child.kill("SIGTERM");
      await exited;
      cancel();
    },
    kill() {
      ending.abort();
      child.kill("SIGKILL");
    },
  };
}
