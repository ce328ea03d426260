import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { LAUNCHER_FOLDER, type LaunchedProgram, launchCommand } from "../../../operator/launcher/launch-command.ts";
import { writeStartProgram } from "../../../operator/launcher/start-program.ts";
import { localExec } from "../snapshots/local-exec.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";

export const LIMIT_MS = 60_000;

export interface Container {
  /** What the launcher keeps its state in. */
  readonly folder: string;
  readonly root: string;
  output(): string;
  /** Sends process 1 a signal. */
  signal(name: NodeJS.Signals): void;
  /** Runs a command in the container, as an exec of Kubernetes does. */
  readonly exec: Exec;
  readonly exitCode: Promise<number | null>;
}

/** A suite of tests with containers: the launcher as process 1 of a pid namespace, with the busybox that pods get. */
export function launcherSuite(name: string) {
  const test = suite(name);
  const root = mkdtempSync(join(tmpdir(), "tenancy-launcher-"));
  const start = join(root, "start");
  const running = new Set<ChildProcess>();

  test.before(() => {
    const written = spawnSync(staticBusybox, ["sh", "-c", writeStartProgram({ busybox: staticBusybox, path: start })]);
    assert.is(written.status, 0, String(written.stderr));
  });

  test.after.each(async () => {
    await Promise.all(
      [...running].map(async (child) => {
        const ended = child.exitCode !== null || child.signalCode !== null ? undefined : once(child, "close");
        child.kill("SIGKILL");
        await ended;
      }),
    );
    running.clear();
  });

  test.after(() => rmSync(root, { recursive: true, maxRetries: 20 }));

  function launch(
    command: string[],
    options: { env?: Record<string, string>; before?: (folder: string) => void } & Partial<LaunchedProgram> = {},
  ): Container {
    const { env = {}, before, ...mode } = options;
    const own = mkdtempSync(join(root, "container-"));
    const folder = join(own, LAUNCHER_FOLDER);
    mkdirSync(folder, { recursive: true });
    before?.(folder);
    const [program = "", ...args] = command;
    const words = launchCommand(
      { program, args, stopGraceSeconds: 5, ...mode },
      { busybox: staticBusybox, start, folder },
    );
    const child = spawn("/usr/bin/unshare", ["--pid", "--fork", "--kill-child", "--mount-proc", ...words], {
      cwd: own,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    /** The launcher, seen from outside. */
    const pid = () => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
    return {
      ...{ folder, root: own },
      output: () => output,
      signal(name) {
        const launcher = Number(pid());
        // 0 would be the group of the tests.
        if (launcher === 0) throw new Error("the launcher has ended");
        process.kill(launcher, name);
      },
      exec: (options) =>
        localExec({ ...options, command: ["/usr/bin/nsenter", "-t", pid(), "-p", "-m", "--", ...options.command] }),
      exitCode: once(child, "close").then(([code]) => code as number | null),
    };
  }

  function rootTest(name: string, run: () => Promise<void>): void {
    // A pid namespace is made by root alone.
    if (process.getuid?.() === 0) test(name, run);
    else test.skip(`${name} (needs root: a pid namespace of its own)`, run);
  }

  return { test, root, launch, rootTest };
}

export const shell = (script: string) => [staticBusybox, "sh", "-c", script];
