// @runtimes bun node deno
// What changes in a folder of an instance, told by the real program, which runs on this machine.
import {
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import type { WatchEvent } from "../../../../edge/api/inside/folder-watch.ts";
import { podEvents } from "../../../../edge/api/inside/pod-answer.ts";
import { errorOf } from "../../../error-of.ts";
import { eventually } from "../../../eventually.ts";
import { createRandom } from "../../../random.ts";
import type { TestEdge } from "../test-edge.ts";
import { daemonOf, FILES, filesSuite, openFiles, respond } from "./files-suite.ts";

const { test, open, inFolder, below } = filesSuite("a watch of a folder");
type Change = Extract<WatchEvent, { path: string }>;
const INOTIFY = "anon_inode:inotify";

/** Begins a watch; the events come as they are asked for. */
async function watch(edge: TestEdge, { folder = below(), depth = 64, gone = new AbortController().signal } = {}) {
  const response = await respond(edge, `GET ${FILES}?folder=${folder}&depth=${depth}&watch=true`, { gone });
  assert.is(response.status, 200, response.status === 200 ? "" : await response.text());
  const events = eventsOf(response);
  assert.equal((await events.next()).value, { type: "watching" });
  return events;
}

async function* eventsOf({ body }: Response): AsyncGenerator<WatchEvent, undefined> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of body ?? []) {
    text += decoder.decode(piece, { stream: true });
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line) as WatchEvent;
  }
  assert.is(text, "");
  return undefined;
}

/** The event, with paths below the folder. */
function short(event: WatchEvent | undefined): WatchEvent | undefined {
  if (event === undefined || !("path" in event)) return event;
  const cut = (path: string) => path.slice(below().length + 1);
  return { ...event, path: cut(event.path), ...(event.from !== undefined && { from: cut(event.from) }) };
}

/** The changes up to one, with paths below the folder. */
async function until(
  events: AsyncGenerator<WatchEvent, undefined>,
  isLast: (change: Change) => boolean,
): Promise<Change[]> {
  const found: Change[] = [];
  for (;;) {
    const change = short((await events.next()).value);
    assert.ok(change !== undefined && "path" in change, JSON.stringify(change));
    found.push(change);
    if (isLast(change)) return found;
  }
}

/** Makes a file, and returns the changes before it is told. */
async function untilMarker(events: AsyncGenerator<WatchEvent, undefined>, name: string): Promise<Change[]> {
  writeFileSync(inFolder(name), "");
  const found = await until(events, ({ path }) => path === name);
  return found.slice(0, -1);
}

const told = (changes: Change[]) => changes.map(({ type, path, from }) => [type, path, ...(from ? [from] : [])]);

test("one change after the other is reported, with what is there then", async () => {
  const edge = open();
  const events = await watch(edge);
  const next = async () => (await events.next()).value as Change;
  const one = async (change: () => unknown) => {
    await change();
    return await next();
  };
  const created = await one(() => mkdirSync(inFolder("a")));
  assert.equal([created.type, created.path, created.entry?.type], ["created", below("a"), "directory"]);
  let written = await one(() => writeFileSync(inFolder("a/f"), "content"));
  // The file is there before its content, and on a busy machine each is told.
  while (written.path === below("a/f") && written.entry?.sizeBytes === 0) written = await next();
  assert.is(written.entry?.sizeBytes, 7);
  const { type, entry } = await one(() => utimesSync(inFolder("a/f"), 1, 1));
  assert.equal([type, entry?.path, entry?.modifiedAt], ["changed", below("a/f"), "1970-01-01T00:00:01.000Z"]);
  const moved = await one(() => renameSync(inFolder("a/f"), inFolder("g")));
  assert.equal(
    [moved.type, moved.path, moved.from, moved.entry?.path],
    ["moved", below("g"), below("a/f"), below("g")],
  );
  assert.equal(await one(() => rmSync(inFolder("g"))), { type: "removed", path: below("g") });
  const name = `${FILES}/${below("caf%E9")}`;
  const odd = await one(() => edge.call(`PUT ${name}`, { body: "content" }));
  assert.equal(
    [odd.path, odd.encodedPath, odd.entry?.encodedPath],
    [below("caf\ufffd"), below("caf%E9"), below("caf%E9")],
  );
  const back = await one(() => edge.call(`POST ${name}?move=${below("plain")}`));
  assert.equal([back.encodedPath, back.from, back.encodedFrom], [undefined, below("caf\ufffd"), below("caf%E9")]);
});

/** The paths in a folder. */
function treeOf(folder: string, prefix = ""): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((one) => {
    const path = prefix + one.name;
    return one.isDirectory() ? [path, ...treeOf(join(folder, one.name), `${path}/`)] : [path];
  });
}

/** What a client knows that had these paths and took in what it was told. */
function replay(paths: Iterable<string>, changes: readonly Change[]): string[] {
  const known = new Set(paths);
  const remove = (path: string) => {
    for (const one of known) if (one === path || one.startsWith(`${path}/`)) known.delete(one);
  };
  for (const { type, path, from } of changes) {
    if (type === "removed") remove(path);
    else if (from === undefined) known.add(path);
    else {
      const moved = [...known].filter((one) => one === from || one.startsWith(`${from}/`));
      remove(path);
      remove(from);
      known.add(path);
      for (const one of moved) known.add(path + one.slice(from.length));
    }
  }
  return [...known].sort();
}

/** `TENANCY_MODEL_SEQUENCES` sets how many sequences are run, `TENANCY_MODEL_SEED` the first one. */
const sequences = Number(process.env.TENANCY_MODEL_SEQUENCES ?? 20);
const firstSeed = Number(process.env.TENANCY_MODEL_SEED ?? 1);

test("a client that applies what it is told has the tree, whatever was done at once", async () => {
  const edge = open();
  let overflows = 0;
  for (let seed = firstSeed; seed < firstSeed + sequences; seed += 1) {
    const random = createRandom(seed);
    const name = `in-${seed}`;
    const [inside, outside] = [inFolder(name), inFolder(`out-${seed}`)];
    for (const root of [inside, outside])
      for (const folder of ["a/b", "b"]) mkdirSync(join(root, folder), { recursive: true });
    const events = await watch(edge, { folder: below(name) });
    const initial = treeOf(inside);
    const anywhere = () => {
      const names = Array.from({ length: 1 + random(3) }, () => "abc"[random(3)]);
      return join(random(5) === 0 ? outside : inside, ...(names as string[]));
    };
    const steps: (() => void)[] = [
      () => mkdirSync(anywhere(), { recursive: true }),
      () => writeFileSync(anywhere(), "content"),
      () => renameSync(anywhere(), anywhere()),
      () => renameSync(anywhere(), anywhere()),
      () => rmSync(anywhere(), { recursive: true }),
    ];
    for (let step = 0; step < 60; step += 1) {
      try {
        steps[random(steps.length)]?.();
      } catch {
        // There is nothing of this name, or something that is in the way.
      }
    }
    // What was moved is told once both its places are known, or a third time shows that only one is.
    let known = initial.map((path) => `${name}/${path}`);
    const changes: Change[] = [];
    for (const marker of ["marker-1", "marker-2", "marker-3"]) {
      writeFileSync(join(inside, marker), "");
      for (let isSeen = false; !isSeen; ) {
        const event = short((await events.next()).value);
        if (event?.type === "overflow") {
          overflows += 1;
          known = treeOf(inside).map((path) => `${name}/${path}`);
          isSeen = true;
        } else {
          assert.ok(event !== undefined && "path" in event, JSON.stringify(event));
          changes.push(event);
          known = replay(known, [event]);
          isSeen = event.path === `${name}/${marker}`;
        }
      }
    }
    const tree = treeOf(inside);
    const expected = tree.map((path) => `${name}/${path}`).sort();
    assert.equal(known, expected, `seed ${seed}: ${JSON.stringify(told(changes))}`);
    // Also what is made later in each of the folders, however they have come.
    const later = new Set<string>();
    for (const folder of tree.filter((path) => lstatSync(join(inside, path)).isDirectory())) {
      writeFileSync(join(inside, folder, "last"), "");
      later.add(`${name}/${folder}/last`);
    }
    while (later.size > 0) await until(events, ({ path }) => later.delete(path));
    await events.return(undefined);
  }
  console.log(`note: of ${sequences} sequences, ${overflows} could not be told in their order`);
});

test("a file that is written a thousand times at once is told in few changes", async () => {
  const events = await watch(open());
  for (let count = 0; count < 1000; count += 1) writeFileSync(inFolder("busy"), String(count));
  for (let count = 0; count < 1000; count += 1) {
    writeFileSync(inFolder("gone"), "");
    rmSync(inFolder("gone"));
  }
  const changes = await untilMarker(events, "marker");
  assert.is(changes[0]?.type, "created");
  // Those of a tenth of a second are one.
  assert.ok(changes.length < 500, `${changes.length}`);
});

test("a file that takes another's place by a rename is told once, without the name that it had", async () => {
  const edge = open();
  writeFileSync(inFolder("file"), "old");
  const events = await watch(edge);
  writeFileSync(inFolder("file.new"), "new");
  renameSync(inFolder("file.new"), inFolder("file"));
  // On a busy machine the first name can be told before the rename.
  const changes = await untilMarker(events, "marker-1");
  assert.equal(replay(["file"], changes), ["file"]);
  assert.is((await edge.call(`PUT ${FILES}/${below("upload")}`, { body: "content" })).status, 200);
  const uploaded = await untilMarker(events, "marker-2");
  assert.equal([...new Set(uploaded.map(({ path }) => path))], ["upload"]);
});

test("links are not followed, and what is deeper than was asked for is not told", async () => {
  mkdirSync(inFolder("elsewhere"));
  mkdirSync(inFolder("watched/a/b"), { recursive: true });
  symlinkSync(inFolder("elsewhere"), inFolder("watched/link"));
  symlinkSync(inFolder("watched"), inFolder("to-watched"));
  const events = await watch(open(), { folder: below("to-watched"), depth: 2 });
  writeFileSync(inFolder("elsewhere/file"), "");
  writeFileSync(inFolder("watched/a/b/deep-file"), "");
  mkdirSync(inFolder("watched/new/n/deep"), { recursive: true });
  const untilTold = (path: string) => until(events, (change) => change.path === `to-watched/${path}`);
  const changes = await untilTold("new/n");
  // What was too deep is not any more, and the other way round.
  renameSync(inFolder("watched/a/b"), inFolder("watched/b"));
  const near = await untilTold("b/deep-file");
  assert.equal(told(near), [
    ["moved", "to-watched/b", "to-watched/a/b"],
    ["created", "to-watched/b/deep-file"],
  ]);
  mkdirSync(inFolder("watched/b/c"));
  await untilTold("b/c");
  renameSync(inFolder("watched/b"), inFolder("watched/a/b"));
  await untilTold("a/b");
  writeFileSync(inFolder("watched/a/b/c/deep-file"), "");
  writeFileSync(inFolder("watched/marker"), "");
  changes.push(...(await untilTold("marker")));
  assert.not.match(changes.map(({ path }) => path).join("\n"), /deep|elsewhere|link/);
});

test("a client that does not read is told that changes were missed, and then what comes", async () => {
  const edge = open();
  const events = await watch(edge);
  // The kernel holds 16 384 events. Of one file, ext4 allows 65 000 links.
  const many = 4 * 16_384;
  for (let number = 0; number < many; number += 1) {
    const first = number - (number % 16_384);
    if (number === first) writeFileSync(inFolder(String(number)), "");
    else linkSync(inFolder(String(first)), inFolder(String(number)));
  }
  mkdirSync(inFolder("missed/folder"), { recursive: true });
  const found = new Set<string>();
  for (let event: WatchEvent | undefined = undefined; event?.type !== "overflow"; ) {
    ({ value: event } = await events.next());
    assert.ok(event);
    if ("path" in event) found.add(event.path);
  }
  assert.ok(found.size < many, `${found.size}`);
  // More than one overflow may be told.
  const path = below("missed/folder/file");
  let seen: WatchEvent | undefined;
  const seeing = (async () => {
    while (!(seen !== undefined && "path" in seen && seen.path === path)) seen = (await events.next()).value;
  })();
  await eventually(() => {
    writeFileSync(inFolder("missed/folder/file"), "");
    return seen !== undefined && "path" in seen && seen.path === path;
  });
  await seeing;
});

test("too many folders: 409 at first, and the end of a watch that comes to have too many", async () => {
  const edge = open();
  const events = await watch(edge);
  for (let number = 0; number < 8192; number += 1) mkdirSync(inFolder(String(number)));
  const target = `GET ${FILES}?folder=${below()}&watch=true&depth=2`;
  const refused = await edge.call(target);
  assert.is(refused.status, 409, refused.text);
  assert.match(refused.error ?? "", /more than 8192 folders would be watched in this instance: watch a part of it/);
  let last: WatchEvent | undefined;
  for await (const event of events) last = event;
  assert.equal(last, {
    type: "ended",
    message: "it has more folders than can be watched: watch a part of it, or less deep",
  });
  // The folders itself are few.
  await (await watch(edge, { depth: 1 })).return(undefined);
});

test("a watch ends with its folder, and with its client, and leaves nothing open", async () => {
  const edge = open();
  const pid = await daemonOf(edge);
  mkdirSync(inFolder("gone"));
  const events = await watch(edge, { folder: below("gone") });
  rmSync(inFolder("gone"), { recursive: true });
  assert.equal((await events.next()).value, { type: "ended", message: "the folder was removed or moved" });
  assert.is((await events.next()).done, true);
  const gone = new AbortController();
  const left = await watch(edge, { gone: gone.signal });
  const aborted = left.next();
  assert.is(openFiles(pid).filter((file) => file === INOTIFY).length, 1);
  gone.abort();
  assert.ok((await errorOf(aborted)) !== undefined, "the stream does not look complete");
  await eventually(() => !openFiles(pid).includes(INOTIFY));
});

test("server-sent events, and what no watch can be", async () => {
  const edge = open();
  const accept = "text/event-stream";
  const target = `GET ${FILES}?folder=${below()}&watch=true`;
  const response = await respond(edge, target, { headers: { accept } });
  assert.is(response.headers.get("content-type"), accept);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const more = async () => {
    text += (await reader?.read())?.value ?? "";
  };
  while (!text.includes('event: watching\ndata: {"type":"watching"}\n\n')) await more();
  mkdirSync(inFolder("a"));
  while (!text.includes(`event: created\ndata: {"type":"created","path":"${below("a")}",`)) await more();
  await reader?.cancel();
  writeFileSync(inFolder("file"), "");
  for (const [query, status, says] of [
    [`folder=${below("none")}`, 404, /no such file or directory/],
    [`folder=${below("file")}`, 409, /not a directory/],
    [`folder=${below()}&limit=5`, 400, /^query: ask for one thing/],
    [`folder=${below()}&depth=0`, 400, /^query: ask for one thing/],
  ] as const) {
    const { status: found, error } = await edge.call(`GET ${FILES}?watch=true&${query}`);
    assert.is(found, status, error);
    assert.match(error ?? "", says);
  }
});

test("a pod that sends no lines of events is refused before they fill the memory", async () => {
  const all = async (pieces: Iterable<Uint8Array>) => {
    const found: unknown[] = [];
    async function* data() {
      yield* pieces;
    }
    for await (const event of podEvents(data())) found.push(event);
    return found;
  };
  const text = Buffer.from('{"a":1}\n\n2\n"é"\n'.replace("\n\n", "\n"));
  for (let size = 1; size <= text.length; size += 1) {
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, at) =>
      text.subarray(at * size, at * size + size),
    );
    assert.equal(await all(pieces), [{ a: 1 }, 2, "é"]);
  }
  let pieces = 0;
  function* endless() {
    for (;;) {
      pieces += 1;
      yield Buffer.from("1");
    }
  }
  for (const [source, most] of [
    [endless(), 200_000],
    [[Buffer.from("1\n2")], 0],
    [[Buffer.from("{\n")], 0],
  ] as const) {
    assert.match(String(await errorOf(all(source))), /tools in the pod do not answer as they should/);
    if (most > 0) assert.ok(pieces < most);
  }
});

test.run();
