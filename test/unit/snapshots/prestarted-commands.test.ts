// @waits
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { Exec, ExecOptions, ExecResult } from "../../../crds/client/exec/exec.ts";
import { POD_PACE } from "../../../operator/snapshots/pods/overlay-pod.ts";
import { restoreCommand } from "../../../operator/snapshots/pods/restore-command.ts";
import { restoreOverlay } from "../../../operator/snapshots/pods/restore-overlay.ts";
import { saveOverlay } from "../../../operator/snapshots/pods/save-overlay.ts";
import { frames } from "../../../operator/snapshots/streams/frames.ts";
import {
  ANSWER,
  createPrestartedCommands,
  type PrestartedCommands,
} from "../../../operator/snapshots/streams/prestarted-commands.ts";
import { manualClock } from "../manual-clock.ts";
import { localExec } from "./local-exec.ts";
import { overlayStore } from "./overlay-store.ts";
import { staticBusybox } from "./static-busybox.ts";
import { type ServedStore, serveStore } from "./store-server.ts";
import { treeLines } from "./tree.ts";

const where = { namespace: "here", pod: "this", container: "machine", busybox: staticBusybox };
const key = { tenantId: "t", workloadRef: "w" };
const overlayDirs = ["/data"];
const limits = archiveLimits({ diskGb: 1 });
const signal = new AbortController().signal;
const call = { signal, timeoutMs: 30_000 };
const DAY_MS = 24 * 3_600_000;

interface Context {
  folder: string;
  served: ServedStore;
  store: ReturnType<typeof overlayStore>;
  /** Restores that were started in the pod, and how each ended. */
  started: Promise<ExecResult>[];
  /** How the next is run. */
  exec: Exec;
  prestarted: PrestartedCommands;
}
const test = suite<Context>("createPrestartedCommands");
const kind = { what: "restore the files", minInput: POD_PACE };

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-prestarted-"));
  chmodSync(context.folder, 0o755);
  for (const name of ["from/data", "to/data", "volume"]) mkdirSync(join(context.folder, name), { recursive: true });
  context.served = await serveStore(join(context.folder, "volume"));
  context.store = overlayStore(context.served.store, key);
  context.started = [];
  context.exec = localExec;
  context.prestarted = createPrestartedCommands({ ...kind, exec: counted(context), timeoutMs: 30_000 });
  mkdirSync(join(context.folder, "from/data/folder"), { mode: 0o555 });
  writeFileSync(join(context.folder, "from/data/file"), "content");
  const { store, folder } = context;
  await saveOverlay({
    ...store,
    exec: localExec,
    pod: { ...where, root: join(folder, "from") },
    overlayDirs,
    limits,
    ...call,
  });
});
test.after.each(async ({ folder, served, prestarted, started }) => {
  prestarted.close();
  await served.close();
  await Promise.allSettled(started);
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

function counted(context: Context): Exec {
  return (asked) => {
    const running = context.exec(asked);
    context.started.push(running);
    return running;
  };
}

function prepare({ prestarted, folder }: Context, id = "pod"): void {
  prestarted.prepare(id, restoreCommand({ ...where, root: join(folder, "to") }, { roots: ["data"], opensGate: false }));
}

function restore(context: Context, given = signal): Promise<unknown> {
  const { store, folder, prestarted } = context;
  return restoreOverlay({
    ...{ ...store, exec: counted(context), pod: { ...where, root: join(folder, "to") }, overlayDirs, limits },
    ...{ opensGate: false, timeoutMs: 30_000, signal: given, takePrestarted: (waits) => prestarted.take("pod", waits) },
  });
}

function isRestored({ folder }: Context): boolean {
  return String(treeLines(join(folder, "to/data"))) === String(treeLines(join(folder, "from/data")));
}

test("a command that waits restores, and no other is started", async (context) => {
  prepare(context);
  prepare(context);
  await restore(context);
  assert.is(context.started.length, 1);
  assert.ok(isRestored(context));
});

test("one that is asked ahead restores as any other", async (context) => {
  context.prestarted.warm("pod");
  prepare(context);
  context.prestarted.warm("pod");
  context.prestarted.warm("pod");
  await restore(context);
  assert.is(context.started.length, 1);
  assert.ok(isRestored(context));
});

test("one that has answered long ago is not given out: it may have gone since", async () => {
  const clock = manualClock();
  let ended = 0;
  const exec: Exec = ({ stdin, stdout, signal: stopped }) =>
    new Promise((_resolve, reject) => {
      stopped?.addEventListener("abort", () => {
        ended += 1;
        reject(stopped.reason);
      });
      stdin?.once("data", () => stdout?.write(`${ANSWER}\n`));
    });
  const prestarted = createPrestartedCommands({
    ...kind,
    exec,
    clock,
    timeoutMs: 1000,
  });
  const target = restoreCommand(where, { roots: ["data"], opensGate: false });
  for (const age of [3000, 3001]) {
    prestarted.prepare("pod", target);
    prestarted.warm("pod");
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    clock.set(clock.now() + age);
    assert.is((await prestarted.take("pod", signal)) !== undefined, age === 3000, `${age} ms`);
  }
  assert.is(ended, 1);
});

test("a command is given out once: without one a restore starts its own", async (context) => {
  prepare(context);
  await restore(context);
  await restore(context);
  assert.is(context.started.length, 2);
  assert.ok(isRestored(context));
});

test("one that waits has changed nothing, whatever ends it", async (context) => {
  const file = join(context.folder, "to/data/of-the-image");
  writeFileSync(file, "stays");
  prepare(context);
  context.prestarted.cancel("pod");
  prepare(context);
  context.prestarted.warm("pod");
  context.prestarted.cancel("pod");
  prepare(context);
  context.prestarted.close();
  prepare(context);
  prepare(context);
  // Asked whether it is there, and then aborted.
  const taken = await context.prestarted.take("pod", signal);
  const aborted = AbortSignal.abort(new Error("no longer"));
  const input = frames([]);
  assert.match(String(await taken?.feed({ input, signal: aborted, timeoutMs: 1000 }).catch(String)), "no longer");
  assert.is(context.started.length, 4);
  assert.is(readFileSync(file, "utf8"), "stays");
});

test("a restore that fails while it is fed fails, and is not tried again in the pod", async (context) => {
  prepare(context);
  const archive = join(context.folder, "volume/t/w.tar.gz");
  const changed = readFileSync(archive);
  // The byte of gzip's header that names the operating system: only the digest tells.
  changed[9] = 7;
  writeFileSync(archive, changed);
  assert.match(String(await restore(context).catch(String)), "ArchiveError");
  assert.is(context.started.length, 1);
});

test("an abort ends a restore in the middle, with its own reason", async (context) => {
  prepare(context);
  const stop = new AbortController();
  const restoring = restore(context, stop.signal);
  stop.abort(new Error("no longer"));
  assert.match(String(await restoring.catch(String)), "no longer");
});

const faults: [string, (asked: ExecOptions) => Promise<ExecResult>][] = [
  ["could not be started", () => Promise.reject(new Error("no such container"))],
  ["has ended, as with its container", () => Promise.resolve({ exitCode: 137, stderr: "" })],
  [
    "does not answer, as one whose node is cut off",
    ({ signal: given }) =>
      new Promise((_resolve, reject) => given?.addEventListener("abort", () => reject(given.reason))),
  ],
  [
    "ends when it is asked",
    ({ stdin }) => new Promise((resolve) => stdin?.once("data", () => resolve({ exitCode: 1, stderr: "" }))),
  ],
];

for (const [what, run] of faults) {
  test(`of a command that ${what} nothing is expected: the restore starts its own`, async (context) => {
    context.exec = run;
    prepare(context);
    context.exec = localExec;
    await restore(context);
    assert.is(context.started.length, 2);
    assert.ok(isRestored(context));
  });
}

test("one that ended is started anew after a while, until its pod is dismissed, and few wait at a time", async () => {
  const clock = manualClock();
  const ends: ((error: Error) => void)[] = [];
  const exec: Exec = ({ signal: given }) =>
    new Promise((_resolve, reject) => {
      ends.push(reject);
      given?.addEventListener("abort", () => reject(given.reason));
    });
  const prestarted = createPrestartedCommands({ ...kind, exec, clock, timeoutMs: 1000 });
  const target = restoreCommand(where, { roots: ["data"], opensGate: false });
  prestarted.prepare("pod", target);
  ends[0]?.(new Error("the connection was cut"));
  await settled();
  prestarted.prepare("pod", target);
  assert.is(ends.length, 1, "not at once");
  await clock.pass(60_000);
  assert.is(ends.length, 2);
  await clock.pass(DAY_MS);
  await clock.pass(60_000);
  assert.is(ends.length, 3, "after a day too");
  ends[2]?.(new Error("the pod is gone"));
  await settled();
  prestarted.cancel("pod");
  await clock.pass(60_000);
  assert.is(ends.length, 3);
  assert.is(await prestarted.take("pod", signal), undefined);
  for (let index = 0; index < 100; index += 1) prestarted.prepare(`pod-${index}`, target);
  assert.is(ends.length, 3 + 32);
  prestarted.close();
  await settled();
  assert.is(clock.pending(), 0);
});

test("an empty folder is known without a program, and one with anything in it is emptied", async (context) => {
  const target = join(context.folder, "to/data");
  for (const name of ["left", ".dot", "..two", "...", "left\nover", "*"]) {
    writeFileSync(join(target, name), "");
    await restore(context);
    assert.not.ok(readdirSync(target).includes(name), JSON.stringify(name));
    assert.ok(isRestored(context));
    rmSync(target, { recursive: true });
    mkdirSync(target);
  }
  assert.ok(existsSync(target));
});

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test.run();
