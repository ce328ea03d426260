import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { withFileLock } from "../../../scripts/cluster/process/file-lock.ts";
import {
  isRunning,
  type ProcessIdentity,
  readProcessIdentity,
} from "../../../scripts/cluster/process/process-identity.ts";
import { startProgram } from "../../../scripts/cluster/process/start-program.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";

const test = suite<{ folder: string }>("process");
test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "process-test-"));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

async function deadProcess(): Promise<ProcessIdentity> {
  const child = spawn("sleep", ["60"]);
  const identity = readProcessIdentity(child.pid as number) as ProcessIdentity;
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  return identity;
}

test("stopProcess leaves a process alone that has only inherited the pid", async () => {
  const child = spawn("sleep", ["60"]);
  const identity = readProcessIdentity(child.pid as number) as ProcessIdentity;
  await stopProcess({ ...identity, startTime: identity.startTime - 1 }, { name: "sleep", graceMs: 0 });
  assert.ok(isRunning(identity));
  await stopProcess(identity, { name: "sleep" });
  assert.not.ok(isRunning(identity));
});

test("isRunning takes nothing for running after a reboot", () => {
  const self = readProcessIdentity(process.pid) as ProcessIdentity;
  assert.ok(isRunning(self));
  assert.not.ok(isRunning({ ...self, bootId: "another" }));
});

test("stopProcess insists when asking is not enough", async ({ folder }) => {
  const program = await startProgram({
    ...{ name: "stubborn", command: "sh", lifetime: "parent", logPath: join(folder, "log") },
    arguments: ["-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"],
  });
  const isReady = () => readFileSync(join(folder, "log"), "utf8").includes("ready");
  await waitUntil(isReady, { what: "the program", limitMs: 60_000 });
  await stopProcess(program.identity, { name: "stubborn", graceMs: 100 });
  assert.not.ok(isRunning(program.identity));
});

test("startProgram says why a program cannot be started", async ({ folder }) => {
  const logPath = join(folder, "log");
  const options = {
    name: "nothing",
    command: join(folder, "missing"),
    arguments: [],
    logPath,
    lifetime: "detached",
  } as const;
  await startProgram(options).then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /Cannot start nothing .*ENOENT/),
  );
});

test("startProgram says what a program ended with that ends before it can be looked at", async ({ folder }) => {
  const path = join(folder, "pid");
  const starting = startProgram({
    ...{ name: "short", command: "sh", arguments: ["-c", `echo $$ > ${path}; exit 3`] },
    ...{ logPath: join(folder, "log"), lifetime: "detached" },
  });
  const hasEnded = () => {
    const pid = existsSync(path) ? readFileSync(path, "utf8") : "";
    return pid.endsWith("\n") && readProcessIdentity(Number(pid)) === undefined;
  };
  while (!hasEnded()) spawnSync("sleep", ["0.01"]);
  await starting.then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /^Cannot start short: exit status 3\n/),
  );
});

test("withFileLock lets one in at a time", async ({ folder }) => {
  let inside = 0;
  let most = 0;
  const work = () =>
    withFileLock(join(folder, "lock"), { what: "the test", limitMs: 60_000 }, async () => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise((resolve) => setTimeout(resolve, 5));
      inside -= 1;
    });
  await Promise.all([work(), work(), work()]);
  assert.is(most, 1);
  assert.not.ok(existsSync(join(folder, "lock")));
});

test("withFileLock takes no notice of a holder that has died", async ({ folder }) => {
  const path = join(folder, "lock");
  writeFileSync(path, JSON.stringify(await deadProcess()));
  assert.is(await withFileLock(path, { what: "the test", limitMs: 60_000 }, async () => "done"), "done");
});

test("withFileLock gives up on a holder that lives", async ({ folder }) => {
  const path = join(folder, "lock");
  writeFileSync(path, JSON.stringify(readProcessIdentity(process.pid)));
  const waited: number[] = [];
  const options = { what: "the test", limitMs: 50, onWait: ({ pid }: ProcessIdentity) => waited.push(pid) };
  await withFileLock(path, options, async () => assert.unreachable()).then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /the test \(another process is at it, see .*lock\)/),
  );
  assert.equal(waited, [process.pid]);
});

test.run();
