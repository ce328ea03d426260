import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readIfThere } from "../cluster/process/read-if-there.ts";
import { waitUntil } from "../cluster/process/wait-until.ts";
import { START_TIMES } from "../cluster/start-times.ts";
import type { Kind, Runtime, TestFile } from "./find-test-files.ts";

export interface TestRun {
  kind: Kind;
  label: string;
  passed: number;
  failed: number;
  skipped: number;
  seconds: number;
  /** The time of each start of a control plane or cluster. */
  startSeconds: number[];
  /** Why the run failed, in one line. */
  problem: string;
  /** The lines that the file printed after `note: `: figures for the reader of the report. */
  notes: string[];
  output: string;
}

const root = join(import.meta.dirname, "..", "..");
const commands: Record<Runtime, string[]> = {
  node: [process.execPath, "--import", "tsx"],
  bun: ["bun"],
  deno: ["deno", "run", "-A", "--quiet", "--import-map", "test/import-map.json"],
};

/** How long a stop may take, such as that of an `npm start` that stops a cluster. */
const END_LIMIT_MS = 60_000;

/**
 * Runs one test file in its own process group, and reads uvu's final figures. A file has failed if it runs no test,
 * ends without those figures or exceeds its limit. Processes that it leaves in its group are killed; if the file was
 * stopped, they have a minute to end by themselves.
 *
 * @param options.module the compiled file that Node runs instead
 */
export async function runTestFile(
  file: TestFile,
  { signal, environment, module }: { signal: AbortSignal; environment?: NodeJS.ProcessEnv; module?: string },
): Promise<TestRun> {
  const started = Date.now();
  const [command = "", ...words] =
    module === undefined
      ? [...commands[file.runtime], join(root, file.path)]
      : [process.execPath, "--enable-source-maps", module];
  const folder = mkdtempSync(join(tmpdir(), "tenancy-test-run-"));
  const startTimes = join(folder, "starts");
  const child = spawn(command, words, {
    cwd: root,
    detached: true,
    env: { ...process.env, ...environment, [START_TIMES]: startTimes },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));

  let timedOut = false;
  let killing: NodeJS.Timeout | undefined;
  function stop(): void {
    killGroup(child, "SIGTERM");
    killing = setTimeout(() => killGroup(child, "SIGKILL"), END_LIMIT_MS);
  }
  const timer = setTimeout(() => {
    timedOut = true;
    stop();
  }, file.limitSeconds * 1000);
  signal.addEventListener("abort", stop, { once: true });
  const exit = await new Promise<string | number>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, killedBy) => resolve(code ?? killedBy ?? 1));
  });
  clearTimeout(timer);
  signal.removeEventListener("abort", stop);
  if (killing === undefined) killGroup(child, "SIGKILL");
  await waitUntil(() => !groupRuns(child.pid), {
    what: `what ${file.label} has started to end`,
    limitMs: END_LIMIT_MS + 10_000,
  });
  clearTimeout(killing);
  const startSeconds = (readIfThere(startTimes) ?? "").split("\n").filter(Boolean).map(Number);
  rmSync(folder, { recursive: true });

  const figures = readFigures(output);
  const problem = timedOut
    ? `still running after its limit of ${file.limitSeconds} s`
    : figures.total === 0
      ? `ran no test (exit ${exit})`
      : figures.total > figures.passed
        ? `${figures.total - figures.passed} of ${figures.total} tests failed`
        : exit !== 0
          ? `ended with ${exit} after its tests passed`
          : "";
  return {
    kind: file.kind,
    label: file.label,
    passed: figures.passed,
    skipped: figures.skipped,
    failed: problem === "" ? 0 : Math.max(1, figures.total - figures.passed),
    seconds: (Date.now() - started) / 1000,
    startSeconds,
    problem,
    notes: [...output.matchAll(/note: .*$/gm)].map(([note]) => note),
    output,
  };
}

/** What uvu says of each test that failed, without its stack: the end of a long log may be all that is kept of it. */
export function failedTests(output: string): string[] {
  const blocks = output.matchAll(/^ *FAIL {2}.*\n(?:(?! +at |\s*FAIL {2}|\s*Total: ).*\n){0,12}/gm);
  return [...blocks].map(([block]) => block.replace(/\n\s*\n/g, "\n").trim());
}

function readFigures(output: string): { total: number; passed: number; skipped: number } {
  const figure = (name: string) =>
    Number([...output.matchAll(new RegExp(`^\\s*${name}:\\s+(\\d+)`, "gm"))].at(-1)?.[1] ?? 0);
  return { total: figure("Total"), passed: figure("Passed"), skipped: figure("Skipped") };
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid !== undefined) signalGroup(child.pid, signal);
}

/** @returns whether the group has a process, including zombies */
function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    return false;
  }
}

/** Whether a process of a group still runs. Zombies do not count. */
function groupRuns(group: number | undefined): boolean {
  // Reading every process of the machine takes milliseconds, and most files leave none, so check the group first.
  if (group === undefined || !signalGroup(group, 0)) return false;
  return readdirSync("/proc").some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    const stat = readIfThere(`/proc/${pid}/stat`) ?? "";
    // The command in parentheses may contain blanks and parentheses. So the fields begin after the last parenthesis.
    const [state, , ofGroup] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(ofGroup) === group && state !== "Z" && state !== "X";
  });
}
