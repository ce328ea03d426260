import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Exec, ExecOptions, ExecResult } from "../../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";
import { type ArchiveSession, createArchiveSession } from "../../../operator/snapshots/archive-session.ts";
import { type ArchiveStore, createArchiveStore } from "../../../operator/snapshots/archive-store.ts";
import { createHeldArchives } from "../../../operator/snapshots/held-archives.ts";
import { createSessionReader, type SessionAnswer } from "../../../operator/snapshots/session-reader.ts";
import { manualClock } from "../manual-clock.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";

const call = { signal: new AbortController().signal, timeoutMs: 20_000 };
const description = {
  ...{ uid: 1000, gid: 2000, entries: 1, contentBytes: 10, overlayDirs: ["/dåta"] },
  createdAt: "2026-11-21T12:00:00.000Z",
};
const MiB = 2 ** 20;

interface Context {
  root: string;
  /** Commands that were started in the helper. */
  started: string[][];
  /** Whether the command of the session is not to be had. */
  sessionFails: boolean;
  session: ArchiveSession;
  store: ArchiveStore;
}
const test = suite<Context>("createArchiveSession");

test.before.each((context) => {
  context.root = join(mkdtempSync(join(tmpdir(), "tenancy-session-")), "volume");
  mkdirSync(context.root);
  context.started = [];
  context.sessionFails = false;
  const { root, started } = context;
  const exec: Exec = async (asked) => {
    started.push([...asked.command]);
    if (context.sessionFails && isSession(asked)) throw new Error("no connection");
    return await localExec(asked);
  };
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
  context.session = createArchiveSession({ exec, folder });
  context.store = createArchiveStore({ exec, folder, session: context.session });
});
test.after.each(({ session, root }) => {
  session.close();
  rmSync(join(root, ".."), { recursive: true, maxRetries: 20 });
});

function isSession({ command }: ExecTarget): boolean {
  return command.some((word) => word.includes("while read -r id"));
}

function write(store: ArchiveStore, tenantId: string, content: Buffer) {
  async function* archive(): AsyncGenerator<Buffer> {
    yield content;
  }
  return store.write({ tenantId, workloadRef: "w" }, archive(), { ...call, describe: () => description });
}

async function read(store: ArchiveStore, tenantId: string): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  const archive = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      parts.push(chunk);
      callback();
    },
  });
  const recorded = await store.read({ tenantId, workloadRef: "w" }, archive, call);
  return recorded && Buffer.concat(parts);
}

// Whatever a line-wise protocol could trip over.
const awkward = Buffer.from("\n\nabc found 1 1\n\0\xff\n{}\n\n", "latin1");

test("a look at a small archive brings it along, and both take no command but the one that stays", async (context) => {
  const { store, started } = context;
  const written = await write(store, "a", awkward);
  const before = started.length;
  assert.equal(await store.stat({ tenantId: "a", workloadRef: "w" }, call), written);
  assert.equal(await read(store, "a"), awkward);
  assert.is(started.length - before, 1);
  assert.equal(await store.stat({ tenantId: "a", workloadRef: "w" }, call), written);
  assert.is(started.length - before, 1);
});

test("which of several records of one size is the archive's is told by what was brought along", async (context) => {
  const { store, started } = context;
  for (const content of ["one", "six"]) await write(store, "a", Buffer.from(content));
  const written = await write(store, "a", Buffer.from("two"));
  const before = started.length;
  assert.equal(await store.stat({ tenantId: "a", workloadRef: "w" }, call), written);
  assert.equal(await read(store, "a"), Buffer.from("two"));
  assert.is(started.length - before, 1, "the session alone");
});

test("what was brought along is not given out when the archive was erased or replaced meanwhile", async (context) => {
  const { root, store } = context;
  const key = { tenantId: "a", workloadRef: "w" };
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
  const other = createArchiveStore({ exec: localExec, folder });
  await write(other, "a", Buffer.from("old"));
  await store.stat(key, call);
  assert.ok(await other.delete(key, call));
  assert.is(await read(store, "a"), undefined, "erased");
  for (const next of ["of another length", "new"]) {
    await write(other, "a", Buffer.from("old"));
    await store.stat(key, call);
    await write(other, "a", Buffer.from(next));
    assert.is(await read(store, "a"), undefined, next);
  }
});

test("what was brought along is given out once, and never after a write, a deletion or a later look", async (context) => {
  const { root, store, started } = context;
  const key = { tenantId: "a", workloadRef: "w" };
  const commands = () => started.length;
  await write(store, "a", Buffer.from("old"));
  await store.stat(key, call);
  let before = commands();
  assert.equal(await read(store, "a"), Buffer.from("old"));
  assert.is(commands(), before);
  assert.equal(await read(store, "a"), Buffer.from("old"));
  assert.is(commands(), before + 1, "it is read anew");
  await store.stat(key, call);
  await write(store, "a", Buffer.from("new"));
  assert.equal(await read(store, "a"), Buffer.from("new"));
  await store.stat(key, call);
  await store.delete(key, call);
  assert.is(await read(store, "a"), undefined);

  // Another operator writes, and this one's next look has to do without the session.
  await write(store, "a", Buffer.from("old"));
  await store.stat(key, call);
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
  const other = createArchiveStore({ exec: localExec, folder });
  await write(other, "a", Buffer.from("newest"));
  context.session.close();
  context.sessionFails = true;
  before = commands();
  await store.stat(key, call);
  assert.is(commands(), before + 2, "the session was tried, and a command has answered");
  assert.equal(await read(store, "a"), Buffer.from("newest"));
});

test("what was brought along is forgotten after ten seconds, and all of it when the store is closed", async (context) => {
  const { store, started } = context;
  const key = { tenantId: "a", workloadRef: "w" };
  await write(store, "a", Buffer.from("old"));
  await store.stat(key, call);
  store.close();
  const before = started.length;
  assert.equal(await read(store, "a"), Buffer.from("old"));
  assert.is(started.length, before + 1);

  const clock = manualClock();
  const held = createHeldArchives<string>({ clock });
  held.hold(key, "first");
  await clock.pass(5000);
  held.hold(key, "second");
  assert.is(clock.pending(), 1);
  assert.is(await clock.runNext(), 10_000);
  assert.is(held.take(key), undefined);
  for (let index = 0; index < 20; index += 1) held.hold({ ...key, tenantId: `t${index}` }, "many");
  assert.equal([clock.pending(), clock.nextIn()], [16, 10_000], "few at a time");
  assert.is(held.take({ ...key, tenantId: "t3" }), undefined);
  assert.is(held.take({ ...key, tenantId: "t4" }), "many");
});

test("a large archive is found and not brought along", async ({ store, session }) => {
  const content = Buffer.alloc(2 * MiB + 1, 7);
  await write(store, "a", content);
  const found = await session.look({ tenantId: "a", workloadRef: "w" }, call);
  assert.equal({ ...found, lines: [] }, { kind: "found", sizeBytes: content.length, lines: [], archive: undefined });
  assert.equal(await read(store, "a"), content);
});

test("many at once are each answered with their own", async ({ store }) => {
  const tenants = Array.from({ length: 40 }, (_, index) => `t${index}`);
  for (const tenant of tenants.slice(0, 20)) await write(store, tenant, Buffer.from(`files of ${tenant}`));
  const answers = await Promise.all(tenants.map((tenantId) => store.stat({ tenantId, workloadRef: "w" }, call)));
  assert.equal(
    answers.map((answer) => answer?.tenantId),
    tenants.map((tenant, index) => (index < 20 ? tenant : undefined)),
  );
});

test("a volume that is not there, or cannot be looked at, is not one without the archive", async ({
  root,
  session,
  store,
}) => {
  const key = { tenantId: "a", workloadRef: "w" };
  const messageOf = (look: Promise<unknown>) => look.then(String, (error: Error) => error.message);
  assert.is(await messageOf(session.look(key, call).then(({ kind }) => kind)), "unmarked");
  renameSync(root, `${root}-away`);
  assert.match(await messageOf(session.look(key, call)), "is not there");
  assert.match(await messageOf(store.stat(key, call)), "is not there");
  renameSync(`${root}-away`, root);
  writeFileSync(join(root, "a"), "where a folder should be");
  assert.match(await messageOf(session.look(key, call)), "Not a directory");
  assert.match(await messageOf(store.stat(key, call)), "Not a directory");
  rmSync(join(root, "a"));
  mkdirSync(join(root, "a", "w.tar.gz"), { recursive: true });
  assert.match(await messageOf(store.stat(key, call)), "Cannot");
});

for (const way of ["the session", "commands of their own"]) {
  test(`once the mark of a volume was seen, an empty folder in its place is neither looked at nor written to, by ${way}`, async (context) => {
    const { root, store } = context;
    context.sessionFails = way !== "the session";
    const newcomer = { tenantId: "new", workloadRef: "w" };
    assert.is(await store.stat(newcomer, call), undefined, "a new volume has no mark");
    const written = await write(store, "a", awkward);
    assert.is(await store.stat(newcomer, call), undefined);
    renameSync(root, `${root}-away`);
    mkdirSync(root);
    assert.match(String(await store.stat(newcomer, call).catch(String)), "mark that was on the volume is gone");
    assert.match(String(await write(store, "a", awkward).catch(String)), "mark that was on the volume is gone");
    assert.equal(readdirSync(root), []);
    rmSync(root, { recursive: true });
    renameSync(`${root}-away`, root);
    assert.equal(await store.stat({ tenantId: "a", workloadRef: "w" }, call), written);
    assert.is(await store.stat(newcomer, call), undefined);

    rmSync(root, { recursive: true });
    mkdirSync(root);
    store.forgetVolume();
    assert.is(await store.stat(newcomer, call), undefined, "it was made anew");
    await write(store, "a", awkward);
  });
}

test("what another operator has seen is asked before a volume without its mark is believed, and what this one sees is told once", async ({
  root,
  store,
}) => {
  await write(store, "a", awkward);
  const newcomer = { tenantId: "new", workloadRef: "w" };
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
  let told = 0;
  let wasSeen = async (): Promise<boolean> => true;
  const next = () =>
    createArchiveStore({
      ...{ exec: localExec, folder },
      mark: {
        wasSeen: () => wasSeen(),
        async remember() {
          told += 1;
          if (told === 1) throw new Error("no connection");
        },
      },
    });
  const right = next();
  for (let looks = 0; looks < 3; looks += 1) assert.is(await right.stat(newcomer, call), undefined);
  assert.is(told, 2, "once more after it failed");

  renameSync(root, `${root}-away`);
  mkdirSync(root);
  for (const operator of [next(), next()]) {
    assert.match(String(await operator.stat(newcomer, call).catch(String)), "mark that was on the volume is gone");
    assert.match(String(await write(operator, "a", awkward).catch(String)), "mark that was on the volume is gone");
  }
  wasSeen = () => Promise.reject(new Error("no answer"));
  assert.match(String(await next().stat(newcomer, call).catch(String)), "no answer");
  assert.match(String(await write(next(), "a", awkward).catch(String)), "no answer");
  assert.equal(readdirSync(root), []);
  wasSeen = async () => false;
  assert.is(await next().stat(newcomer, call), undefined, "nobody has seen one");
});

test("a volume with archives from before there were marks is as it was, until a save marks it", async ({
  root,
  store,
}) => {
  await write(store, "a", awkward);
  rmSync(join(root, ".marked"));
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
  const later = createArchiveStore({ exec: localExec, folder });
  assert.is((await later.stat({ tenantId: "a", workloadRef: "w" }, call))?.tenantId, "a");
  assert.is(await later.stat({ tenantId: "b", workloadRef: "w" }, call), undefined);
  await write(later, "b", awkward);
  assert.ok(existsSync(join(root, ".marked")));
});

test("an archive beside which nothing is recorded is found as that, and one with odd lines beside it too", async (context) => {
  const { root, session, store } = context;
  const key = { tenantId: "a", workloadRef: "w" };
  mkdirSync(join(root, "a"));
  writeFileSync(join(root, "a", "w.tar.gz"), awkward);
  assert.equal(await arrived(), found([]));
  assert.match(
    String(await store.stat(key, call).catch((error: Error) => error.message)),
    "nothing that was recorded beside it fits it",
  );
  writeFileSync(join(root, "a", `w.tar.gz.${"0".repeat(16)}.json`), "\n\nodd\n\n{}");
  writeFileSync(join(root, "a", `w.tar.gz.${"1".repeat(16)}.json`), "more\n");
  assert.equal(await arrived(), found(["odd", "{}", "more"]));

  async function arrived() {
    const answer = await session.look(key, call);
    return answer.kind === "found" ? { ...answer, archive: await answer.archive } : answer;
  }
  function found(lines: string[]) {
    return { kind: "found", sizeBytes: awkward.length, lines, archive: awkward };
  }
});

/** What can be between a session and the helper pod, at the first session; the next is as it should be. */
const faults: [string, (asked: ExecOptions) => Promise<ExecResult>][] = [
  ["cannot be started", () => Promise.reject(new Error("cut"))],
  ["ends at once, as one without this busybox does", () => Promise.resolve({ exitCode: 127, stderr: "not found" })],
  [
    "never answers, as one whose node is gone",
    ({ signal }) => new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
  ],
  ["answers something else", says(() => "sh: syntax error\n")],
  ["is cut in the middle of an archive", says((id) => `${id} found 100 100\n{}\n\nonly this`)],
  ["is cut before the end of an answer", says((id) => `${id} found 4 4\n{}\n\nfour`)],
  ["sends fewer bytes than it said", says((id) => `${id} found 100 100\n{}\n\nfew${id} end\n${"x".repeat(100)}\n`)],
  ["sends more bytes than it said", says((id) => `${id} found 2 2\n{}\n\nmore${id} end\n`)],
  [
    "is cut in the middle of an archive that it knew",
    says((id, lines) => `${id} found ${awkward.length} ${awkward.length}\n${lines}\n\nonly this`),
  ],
  [
    "sends more of it than it said",
    says((id, lines) => `${id} found ${awkward.length} ${awkward.length}\n${lines}\n\n${"x".repeat(99)}`),
  ],
  ["sends more than was asked for", says((id) => `${id} found 9999999 9999999\n\n`)],
  ["answers another question", says(() => "00 none\n")],
];

function says(answer: (id: string, lines: string) => string): typeof localExec {
  return ({ command, stdin, stdout, signal }) =>
    new Promise((resolve, reject) => {
      const folder = join(command[command.indexOf("store") + 2] ?? "", "a");
      const beside = readdirSync(folder).filter((name) => name.endsWith(".json"));
      const lines = beside.map((name) => readFileSync(join(folder, name), "utf8").trim()).join("\n");
      signal?.addEventListener("abort", () => reject(signal.reason));
      stdout?.once("error", reject);
      stdin?.once("data", (question: Buffer) => {
        stdout?.write(answer(question.toString("utf8").split(" ")[0] ?? "", lines), () =>
          resolve({ exitCode: 0, stderr: "" }),
        );
      });
    });
}

for (const [what, fault] of faults) {
  test(`of a session that ${what} nothing is believed: commands of their own look, and another session is opened`, async (context) => {
    const { root } = context;
    const written = await write(context.store, "a", awkward);
    let opened = 0;
    const failing: Exec = (asked) => {
      if (!isSession(asked)) return localExec(asked);
      opened += 1;
      return opened === 1 ? fault(asked) : localExec(asked);
    };
    const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
    const session = createArchiveSession({ exec: failing, folder });
    const store = createArchiveStore({ exec: failing, folder, session });
    const looks = ["a", "none"].map((tenantId) =>
      store.stat({ tenantId, workloadRef: "w" }, { ...call, timeoutMs: 2000 }),
    );
    assert.equal(await Promise.all(looks), [written, undefined]);
    assert.equal(await read(store, "a"), awkward);
    assert.equal(await store.stat({ tenantId: "a", workloadRef: "w" }, call), written);
    assert.is(opened, 2);
    store.close();
  });
}

test("an aborted look ends at once, and its late answer disturbs nobody", async ({ store, session }) => {
  await write(store, "a", awkward);
  const stop = new AbortController();
  const looking = session.look({ tenantId: "a", workloadRef: "w" }, { ...call, signal: stop.signal });
  stop.abort(new Error("no longer"));
  assert.is(await looking.catch((error: Error) => error.message), "no longer");
  const found = await session.look({ tenantId: "a", workloadRef: "w" }, call);
  assert.equal(found.kind === "found" && (await found.archive), awkward);
});

test("answers are taken apart wherever they are cut into pieces", async () => {
  const output = Buffer.concat([
    Buffer.from(`01 none\n02 found ${awkward.length} ${awkward.length}\n{"å":1}\n{}\n\n`),
    awkward,
    Buffer.from("02 end\n03 failed it is gone\n04 found 9 0\n\n04 end\n05 none\n"),
  ]);
  for (const size of [1, 2, 3, 7, output.length]) {
    const answers: SessionAnswer[] = [];
    const reader = createSessionReader({ mostBytes: 1000, onAnswer: (answer) => answers.push(answer) });
    for (let at = 0; at < output.length; at += size) reader.write(output.subarray(at, at + size));
    assert.equal(
      answers.map(({ id, kind }) => `${id} ${kind}`),
      ["01 none", "02 found", "03 failed", "04 found", "05 none"],
    );
    const [, found, , large] = answers as Extract<SessionAnswer, { kind: "found" }>[];
    assert.equal(found?.lines, ['{"å":1}', "{}"]);
    assert.equal(await found?.archive, awkward);
    assert.is(large?.archive, undefined);
  }
});

test.run();
