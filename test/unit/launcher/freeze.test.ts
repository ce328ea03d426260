import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import * as assert from "uvu/assert";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { stopProgram } from "../../../operator/launcher/stop-program.ts";
import { MovedOn } from "../../../operator/snapshots/pods/save-output.ts";
import { saveOverlay } from "../../../operator/snapshots/pods/save-overlay.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { areOfOneMoment, countingProgram } from "../../counted-files.ts";
import { errorOf } from "../../error-of.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";
import { type Container, LIMIT_MS, launcherSuite, shell } from "./containers.ts";

const { test, launch, rootTest } = launcherSuite("freeze");

const FILES = 200;
const POD = { namespace: "here", pod: "this", container: "workload", busybox: staticBusybox };

/** Another process of it was stopped before. */
const program = `sleep 1000 & kill -STOP $!; until grep -q "^State:.T" /proc/$!/status; do :; done
echo $! > stopped; ${countingProgram({ files: FILES, folder: "data" })}`;

interface Saved {
  /** The archive, unpacked by another program. */
  readonly numbers: number[];
  readonly frozenMs: number | undefined;
}

async function save(
  { exec, root }: Container,
  before: () => Promise<void> = async () => undefined,
  freezes: "first" | "later" = "first",
): Promise<Saved> {
  const to = join(root, "unpacked");
  let frozenMs: number | undefined;
  await saveOverlay({
    ...{ exec, freezes, overlayDirs: ["/data"], limits: archiveLimits({ diskGb: 1 }), timeoutMs: LIMIT_MS },
    pod: { ...POD, root },
    space: async () => undefined,
    signal: new AbortController().signal,
    onFrozen(ms) {
      frozenMs = ms;
    },
    async write(archive, { describe }) {
      await before();
      const pieces: Uint8Array[] = [];
      for await (const piece of archive) pieces.push(piece.slice());
      mkdirSync(to, { recursive: true });
      execFileSync("tar", ["-xzf", "-", "-C", to], { input: Buffer.concat(pieces) });
      const key = { tenantId: "t", workloadRef: "w" };
      return { ...describe({ sizeBytes: 1 }), ...key, sha256: "", sizeBytes: 1 };
    },
  });
  return { numbers: existsSync(join(to, "data/file-0")) ? numbersIn(to) : [], frozenMs };
}

/** The output of a script in the container. */
async function run({ exec }: Container, script: string): Promise<string> {
  let output = "";
  const stdout = new Writable({
    write(chunk, _encoding, callback) {
      output += chunk;
      callback();
    },
  });
  await exec({ ...POD, command: shell(script), stdout, timeoutMs: LIMIT_MS });
  return output;
}

function numbersIn(folder: string): number[] {
  const names = Array.from({ length: FILES }, (_, index) => join(folder, `data/file-${index}`));
  return names.map((name) => Number(readFileSync(name, "utf8")));
}

async function launchWriter(): Promise<Container> {
  const container = launch(shell(program));
  mkdirSync(join(container.root, "data"), { recursive: true });
  await untilItGoesOn(container);
  return container;
}

/** Waits until the program has written all files. */
async function untilItGoesOn({ root, output }: Container): Promise<void> {
  const last = join(root, `data/file-${FILES - 1}`);
  const before = existsSync(last) ? readFileSync(last, "utf8") : "";
  const goesOn = () => existsSync(last) && !["", before].includes(readFileSync(last, "utf8"));
  await waitUntil(goesOn, { what: "the program to go on", limitMs: LIMIT_MS, explain: output });
}

rootTest("a stopped program's files are those of one moment, and it goes on after that", async () => {
  const container = await launchWriter();
  for (let round = 0; round < 5; round += 1) {
    const { numbers, frozenMs } = await save(container);
    assert.ok(areOfOneMoment(numbers), numbers.join(" "));
    assert.type(frozenMs, "number");
    await untilItGoesOn(container);
  }
});

rootTest("a program is not stopped for longer than a moment where much has to be read", async () => {
  const container = launch(shell("truncate -s 70M data/large; while :; do echo >> data/log; sleep 0.01; done"), {
    before: (folder) => mkdirSync(join(folder, "../../data")),
  });
  const log = join(container.root, "data/log");
  await waitUntil(() => existsSync(log), { what: "the program to begin", limitMs: LIMIT_MS });
  const said: string[] = [];
  const exec: Exec = (asked) => {
    asked.stdin?.on("data", (chunk: Buffer) => said.push(String(chunk)));
    return container.exec(asked);
  };
  await save({ ...container, exec });
  assert.equal(said.slice(0, 2), ["thaw\n", "save\n"]);
});

rootTest("a program that is stopped later, and has changed something by then, is found out", async () => {
  const container = await launchWriter();
  assert.instance(await errorOf(save(container, () => untilItGoesOn(container), "later")), MovedOn);
  await untilItGoesOn(container);
});

rootTest("what was stopped before stays stopped", async () => {
  const container = await launchWriter();
  await save(container);
  await untilItGoesOn(container);
  const pid = readFileSync(join(container.root, "stopped"), "utf8").trim();
  assert.match(await run(container, `cat /proc/${pid}/status`), /^State:\tT/m);
});

/** Kills the command that has stopped the program; with `all`, also what would let it go on. */
async function kill(container: Container, all = false): Promise<void> {
  const script = `for pid in $(grep -la 'freeze[s]' /proc/[0-9]*/cmdline | cut -d / -f 3); do
    ${all ? "" : "grep -q '^PPid:.0$' /proc/$pid/status &&"} kill -KILL $pid && echo killed $pid; done`;
  assert.match(await run(container, script), /^killed \d+\n/);
}

rootTest("a program goes on where what had stopped it was killed", async () => {
  const container = await launchWriter();
  assert.instance(await errorOf(save(container, () => kill(container))), Error);
  await untilItGoesOn(container);
});

rootTest("a program that is still stopped gets its SIGTERM in time", async () => {
  const container = launch(shell("trap 'echo flushed > saved; exit' TERM; echo up; while :; do sleep 0.1; done"), {
    before: (folder) => mkdirSync(join(folder, "../../data")),
  });
  const isUp = () => container.output().includes("up");
  await waitUntil(isUp, { what: "the program to begin", limitMs: LIMIT_MS });
  assert.instance(await errorOf(save(container, () => kill(container, true))), Error);
  const pod = { ...POD, root: container.root };
  const { signal } = new AbortController();
  assert.is(await stopProgram({ exec: container.exec, pod, graceSeconds: 60, signal }), "stopped");
  assert.ok(existsSync(join(container.root, "saved")));
});

rootTest("a shell with job control does not see that the program below it was stopped", async () => {
  const script = "set -m; echo up; while :; do sleep 0.2; code=$?; [ $code = 0 ] || echo returned $code; done";
  const container = launch(["/bin/bash", "-c", script], { before: (folder) => mkdirSync(join(folder, "../../data")) });
  const isUp = () => container.output().includes("up");
  await waitUntil(isUp, { what: "the program to begin", limitMs: LIMIT_MS });
  for (let round = 0; round < 10; round += 1) await save(container);
  await run(container, "sleep 0.5");
  assert.is(container.output(), "up\n");
});

rootTest("a program is not stopped if its pid cannot be written down", async () => {
  const container = launch(shell("while :; do echo >> data/log; sleep 0.01; done"), {
    before: (folder) => {
      mkdirSync(join(folder, "../../data"));
      mkdirSync(join(folder, "frozen"));
    },
  });
  const log = join(container.root, "data/log");
  await waitUntil(() => existsSync(log), { what: "the program to begin", limitMs: LIMIT_MS });
  assert.is((await save(container)).frozenMs, undefined);
});

test.run();
