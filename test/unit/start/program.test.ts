import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type Program, startProgram } from "../../../scripts/start/program.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("startProgram");
const folder = mkdtempSync(join(tmpdir(), "tenancy-program-"));
const programs: Program[] = [];

test.after(async () => {
  for (const program of programs) program.kill();
  rmSync(folder, { recursive: true });
});

function start(name: string, command: string[], env: NodeJS.ProcessEnv = process.env) {
  const clock = manualClock();
  const printed: string[] = [];
  const written: string[] = [];
  const print = (line: string): void => void printed.push(line);
  const onLine = (line: string): void => void written.push(line);
  const program = startProgram({ name, command, cwd: folder, env, print, onLine, clock });
  programs.push(program);
  return { program, printed, written, clock };
}

const until = (what: string, is: () => boolean) => waitUntil(is, { what, limitMs: 60_000, intervalMs: 5 });

test("a program that ends before it is kept is not started again", async () => {
  const { program, printed } = start("early", ["sh", "-c", "exit 3"]);
  assert.is(await program.exited, "exit code 3");
  const missing = start("missing", ["/no/such/program"]);
  // setpriv, through which programs are started where it is there, says so in its own way.
  assert.match(await missing.program.exited, /ENOENT|exit code 127/);
  assert.equal([...printed, ...missing.printed], []);
});

test("a program that is kept is started again after growing pauses, which begin anew when it ran for a minute, until it is stopped", async () => {
  const file = join(folder, "pids");
  const { program, printed, clock } = start("kept", ["sh", "-c", `echo $$ >> ${file}; exec sleep 1000`]);
  program.keep();
  const pids = () => {
    try {
      return readFileSync(file, "utf8").split("\n").filter(Boolean).map(Number);
    } catch {
      return [];
    }
  };
  const killed: number[] = [];
  /** @returns how long it was waited before the next start, in milliseconds */
  async function killIt(): Promise<number> {
    await until("the next process", () => pids().length === killed.length + 1);
    const pid = pids()[killed.length] ?? 0;
    killed.push(pid);
    process.kill(pid, "SIGKILL");
    await until("the wait", () => clock.pending() === 1);
    return clock.runNext();
  }
  const pauses: number[] = [];
  for (let time = 0; time < 8; time++) pauses.push(await killIt());
  assert.equal(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.equal(printed.slice(0, 2), [
    "kept ended: signal SIGKILL; it is started again in 0.5 s",
    "kept is started again",
  ]);
  await until("the next process", () => pids().length === 9);
  clock.after(60_000, () => undefined);
  await clock.runNext();
  assert.is(await killIt(), 500);

  await until("the last process", () => pids().length === 10);
  await program.stop();
  assert.is(await program.exited, "signal SIGTERM");
  assert.throws(() => process.kill(pids()[9] ?? 0, 0), /ESRCH/);
  assert.is(clock.pending(), 0);
});

test("a program that is restarted is back at once, with the environment as it is then", async () => {
  const file = join(folder, "restarted");
  const env: NodeJS.ProcessEnv = { ...process.env, TOLD: "first" };
  const command = ["sh", "-c", `echo "$TOLD" >> ${file}; exec sleep 1000`];
  const { program, printed, clock } = start("restarted", command, env);
  program.keep();
  const told = () => (existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : []);
  await until("the first process", () => told().length === 1);
  env.TOLD = "second";
  program.restart();
  await until("the second process", () => told().length === 2);
  assert.equal(told(), ["first", "second"]);
  assert.equal(printed, ["restarted is started again"]);
  assert.is(clock.pending(), 0);
  await program.stop();
  assert.is(await program.exited, "signal SIGTERM");
});

test("a program that waits to be started again can be stopped", async () => {
  const { program, printed, clock } = start("waiting", ["sh", "-c", "exit 1"]);
  program.keep();
  await until("the wait", () => clock.pending() === 1);
  await program.stop();
  assert.is(await program.exited, "exit code 1");
  assert.equal(printed, ["waiting ended: exit code 1; it is started again in 0.5 s"]);
  assert.is(clock.pending(), 0);
});

test("where a program listens is learned from its own channel", async () => {
  const { program } = start("listening", [process.execPath, "-e", 'process.send({ listening: "http://127.0.0.1:1" })']);
  assert.is(await program.listening, "http://127.0.0.1:1");
});

test("every line of a program is passed on before its end is reported, and a child of it does not hold that up", async () => {
  const { program, written } = start("lines", ["sh", "-c", "sleep 600 & echo $!; echo two >&2; echo last"]);
  assert.is(await program.exited, "exit code 0");
  const [child = "", ...rest] = written.sort();
  process.kill(Number(child));
  assert.equal(rest, ["last", "two"]);
  const unended = start("unended", ["printf", "last"]);
  assert.is(await unended.program.exited, "exit code 0");
  assert.equal(unended.written, ["last"]);
});

test("a program is told to stop when the process that started it is killed", async () => {
  const file = join(folder, "orphan");
  const program = [
    "sh",
    "-c",
    `trap 'echo stopped >> ${file}; exit' TERM; echo runs >> ${file}; while :; do sleep 0.1; done`,
  ];
  const source = `import { startProgram } from ${JSON.stringify(new URL("../../../scripts/start/program.ts", import.meta.url).href)};
    startProgram(${JSON.stringify({ name: "orphan", command: program, cwd: folder })});`;
  const parent = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", source], {
    stdio: "inherit",
  });
  const lines = () => (existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : []);
  await until("the program", () => lines().length === 1);
  parent.kill("SIGKILL");
  await until("its end", () => lines()[1] === "stopped");
});

test.run();
