// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { configMaps } from "../../../crds/client/built-in-resources.ts";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTransport, type Transport } from "../../../crds/client/transport.ts";
import {
  type ListWatch,
  type ListWatchEvent,
  type ListWatchOptions,
  listWatch,
} from "../../../crds/client/watch/list-watch.ts";
import { HistoryError } from "../../../crds/client/watch/listing.ts";
import type { ConfigMap } from "../../../crds/kubernetes.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type ManualClock, manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { type FakeCollection, object, startFakeCollection } from "./fake-collection.ts";

type FakeScript = Parameters<typeof startFakeCollection>[0];

interface Following extends ListWatch {
  readonly events: string[];
  readonly clock: ManualClock;
  readonly stop: AbortController;
}

let collection: FakeCollection | undefined;
let transport: Transport | undefined;
let following: Following | undefined;

test.after.each(async () => {
  following?.stop.abort();
  transport?.close();
  await collection?.server.close();
});

async function follow(
  scripted: FakeScript,
  options: Partial<ListWatchOptions<ConfigMap>> = {},
): Promise<Following & FakeCollection> {
  collection = await startFakeCollection(scripted);
  transport = createTransport({ config: { server: collection.server.url } });
  const client = createClusterClient({ transport });
  const events: string[] = [];
  const clock = manualClock(undefined, { longestPauseMs: 30_000 });
  const stop = new AbortController();
  const { synced, done, versions } = listWatch({
    client,
    resource: configMaps,
    namespace: "a",
    onEvent: (event) => events.push(describe(event)),
    signal: stop.signal,
    log: silentLog,
    clock,
    random: () => 1,
    ...options,
  });
  following = { events, clock, stop, synced, done, versions };
  return { ...following, ...collection };
}

function describe(event: ListWatchEvent<ConfigMap>): string {
  if (event.type === "synced") return "synced";
  return `${event.type} ${event.object.metadata.name} ${event.object.metadata.resourceVersion}`;
}

function until(what: string, check: () => boolean): Promise<boolean> {
  return waitUntil(check, { what, limitMs: 60_000, intervalMs: 1 });
}

function bookmark(resourceVersion: number): unknown {
  return { kind: "ConfigMap", metadata: { resourceVersion: String(resourceVersion) } };
}

/** An event that must not count, since the watch has ended before it. */
const late = `${JSON.stringify({ type: "ADDED", object: object("late", 12) })}\n`;

const oneList = () => ({ resourceVersion: "10", items: [object("x", 5)] });

test("listWatch lists page by page, then watches from the list's resourceVersion with bookmarks", async () => {
  const { events, lists, watches, synced } = await follow(
    {
      onList: (query) =>
        query.get("continue") === "next"
          ? { resourceVersion: "10", items: [object("y", 6)] }
          : { resourceVersion: "10", continue: "next", items: [object("x", 5)] },
    },
    { labelSelector: "a=b", fieldSelector: "metadata.name!=z" },
  );
  await synced;
  await until("the watch", () => watches.length === 1);
  assert.equal(events, ["added x 5", "added y 6", "synced"]);
  assert.equal(lists.map(String), [
    "labelSelector=a%3Db&fieldSelector=metadata.name%21%3Dz&limit=500",
    "labelSelector=a%3Db&fieldSelector=metadata.name%21%3Dz&limit=500&continue=next",
  ]);
  const query = "watch=true&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds=150";
  assert.is(String(watches[0]?.query), `${query}&labelSelector=a%3Db&fieldSelector=metadata.name%21%3Dz`);
});

test("listWatch gives the events of a watch in order, whatever the chunks they come in", async () => {
  const { events, watches } = await follow({ onList: () => ({ resourceVersion: "10" }) });
  await until("the watch", () => watches.length === 1);
  const sent: string[] = [];
  const types = ["ADDED", "MODIFIED", "DELETED"] as const;
  const lines = Array.from({ length: 200 }, (_, index) => {
    const type = types[index % 3] ?? "ADDED";
    const name = `é${Math.floor(index / 3)}`;
    sent.push(`${type.toLowerCase()} ${name} ${index + 11}`);
    return `${JSON.stringify({ type, object: object(name, index + 11) })}\n`;
  });
  const bytes = Buffer.from(lines.join(""));
  for (let start = 0; start < bytes.length; start += 997) watches[0]?.write(bytes.subarray(start, start + 997));
  await until("all events", () => events.length === 201);
  assert.equal(events, ["synced", ...sent]);
});

test("listWatch drops managedFields from lists and from watches", async () => {
  const managedFields = [{ manager: "x" }];
  const seen: unknown[] = [];
  const { watches } = await follow(
    { onList: () => ({ resourceVersion: "10", items: [object("x", 5, { managedFields } as object)] }) },
    { onEvent: (event) => event.type !== "synced" && seen.push(Object.keys(event.object.metadata)) },
  );
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("ADDED", object("y", 11, { managedFields, annotations: {} } as object));
  await until("the event", () => seen.length === 2);
  assert.equal(seen, [
    ["name", "namespace", "uid", "resourceVersion"],
    ["name", "namespace", "uid", "resourceVersion", "annotations"],
  ]);
});

test("listWatch resumes a watch that was cut in the middle of a line, and neither loses nor repeats anything", async () => {
  const { events, watches, lists } = await follow({ onList: oneList });
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("MODIFIED", object("x", 11));
  watches[0]?.write('{"type":"MODIFIED","object":{"metadata":{"name":"x"');
  await until("the event", () => events.length === 3);
  watches[0]?.cut();
  await until("the next watch", () => watches.length === 2);
  assert.is(watches[1]?.query.get("resourceVersion"), "11");
  watches[1]?.send("MODIFIED", object("x", 12));
  await until("the event", () => events.length === 4);
  assert.equal(events, ["added x 5", "synced", "modified x 11", "modified x 12"]);
  assert.is(lists.length, 1);
});

test("listWatch resumes from the last bookmark, which is no event", async () => {
  const { events, watches, clock } = await follow({ onList: oneList });
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("BOOKMARK", bookmark(40));
  watches[0]?.send("BOOKMARK", bookmark(50));
  watches[0]?.end();
  await until("the next watch", () => watches.length === 2);
  assert.is(watches[1]?.query.get("resourceVersion"), "50");
  assert.equal(events, ["added x 5", "synced"]);
  assert.equal(clock.delays, []);
});

test("listWatch says how far it has come: changes move both versions, bookmarks what was seen alone", async () => {
  const { watches, events, versions, synced } = await follow({
    onList: (query) =>
      query.get("continue") === "next"
        ? { resourceVersion: "10", items: [object("y", 6)] }
        : { resourceVersion: "10", continue: "next", items: [object("x", 5)] },
  });
  assert.equal(versions(), { seen: undefined, changed: undefined });
  await synced;
  assert.equal(versions(), { seen: "10", changed: "10" });
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("MODIFIED", object("x", 11));
  await until("the event", () => events.length === 4);
  assert.equal(versions(), { seen: "11", changed: "11" });
  watches[0]?.send("BOOKMARK", bookmark(40));
  await until("the bookmark", () => versions().seen === "40");
  assert.equal(versions(), { seen: "40", changed: "11" });
});

test("listWatch hands a page on as a change before the list is whole", async () => {
  const stands: unknown[] = [];
  const following = await follow(
    {
      onList: (query) =>
        query.get("continue") === "next"
          ? { resourceVersion: "10", items: [object("y", 6)] }
          : { resourceVersion: "10", continue: "next", items: [object("x", 5)] },
    },
    { onEvent: () => void setImmediate(() => stands.push(following.versions())) },
  );
  await until("the first page", () => stands.length > 0);
  assert.equal(stands[0], { seen: undefined, changed: "10" });
});

test("listWatch does not hammer a server that ends every watch at once", async () => {
  const { watches, clock } = await follow({
    onList: oneList,
    onWatch: (watch, count) => void (count < 10 && watch.end()),
  });
  await until("the last watch", () => watches.length === 10);
  // The first is taken for bad luck and repeated at once, every further one waits.
  assert.equal(clock.delays, [800, 1600, 3200, 5000, 5000, 5000, 5000, 5000]);
});

test("listWatch starts its delays over when a watch was healthy", async () => {
  const lasting = [4, 8];
  const { watches, clock } = await follow({
    onList: oneList,
    onWatch: (watch, count) => void (!lasting.includes(count) && watch.end()),
  });
  await until("the watch that lasts", () => watches.length === 4 && clock.pending() === 1);
  assert.equal(clock.delays, [800, 1600]);
  await clock.pass(1000);
  watches[3]?.end();
  await until("the next one that lasts", () => watches.length === 8);
  // At once after the healthy one, and once more after the first that was not.
  assert.equal(clock.delays, [800, 1600, 800, 1600]);
});

for (const [how, expire] of [
  ["as a status", undefined],
  [
    "as an event",
    { kind: "Status", metadata: {}, status: "Failure", reason: "Expired", message: "too old", code: 410 },
  ],
] as const) {
  test(`listWatch lists again at once after a 410 ${how}, and makes up the deletions it missed`, async () => {
    const { events, watches, lists, clock } = await follow({
      onList: (_, count) =>
        count === 1
          ? { resourceVersion: "10", items: [object("x", 5), object("y", 6), object("z", 7)] }
          : { resourceVersion: "90", items: [object("y", 6), object("x", 80, { uid: "successor" })] },
      onWatch: (_, count) => (count === 2 && expire === undefined ? 410 : undefined),
    });
    await until("the watch", () => watches.length === 1);
    watches[0]?.send("ADDED", object("w", 11));
    await until("the event", () => events.length === 5);
    await clock.pass(1000);
    if (expire === undefined) watches[0]?.end();
    else watches[0]?.write(`${JSON.stringify({ type: "ERROR", object: expire })}\n${late}`);
    await until("the watch after the list", () => watches.at(-1)?.query.get("resourceVersion") === "90");
    assert.equal(events.slice(0, 5), ["added x 5", "added y 6", "added z 7", "synced", "added w 11"]);
    assert.equal(events.slice(5), ["added y 6", "added x 80", "deleted z 90", "deleted w 90", "synced"]);
    assert.is(lists.length, 2);
    assert.equal(clock.delays, []);
  });
}

test("listWatch waits between lists when every watch expires at once", async () => {
  const { lists, clock } = await follow({ onList: oneList, onWatch: (_, count) => (count < 5 ? 410 : undefined) });
  await until("the last list", () => lists.length === 5);
  assert.equal(clock.delays, [800, 1600, 3200]);
});

test("listWatch asks for the whole list at once when the pages of one expire", async () => {
  const { events, lists, synced } = await follow({
    onList: (query) => {
      if (query.has("continue")) return { status: 410 };
      if (query.has("limit")) return { resourceVersion: "10", continue: "next", items: [object("x", 5)] };
      return { resourceVersion: "12", items: [object("x", 5), object("y", 11)] };
    },
  });
  await synced;
  assert.equal(
    lists.map((query) => query.get("limit")),
    ["500", "500", null],
  );
  assert.equal(events, ["added x 5", "added x 5", "added y 11", "synced"]);
});

test("listWatch deletes nothing that is newer than a list which does not have it yet", async () => {
  const written = object("new", 95);
  const stale = object("stale", 85);
  const { events, synced } = await follow(
    { onList: () => ({ resourceVersion: "90", items: [object("x", 5)] }) },
    { knownObjects: () => [written, stale] },
  );
  await synced;
  assert.equal(events, ["added x 5", "deleted stale 90", "synced"]);
});

test("listWatch takes a stream for dead that is silent beyond its time, and resumes", async () => {
  const { events, watches, clock, server } = await follow({ onList: oneList });
  await until("the watch", () => watches.length === 1 && clock.pending() === 1);
  await clock.pass(100_000);
  watches[0]?.send("MODIFIED", object("x", 11));
  await until("the event", () => events.length === 3);
  await clock.pass(164_999);
  await until("the guard to be set again", () => clock.pending() === 1);
  assert.is(
    watches.length,
    1,
    "150 s of the watch and 15 s beyond it have passed since its start, not since the event",
  );
  await clock.pass(1);
  await until("the next watch", () => watches.length === 2);
  assert.is(watches[1]?.query.get("resourceVersion"), "11");
  await until("the dead connections to be closed, the list's too", () => server.connections() === 1);
});

test("listWatch lists again, after a pause, when a line makes no sense", async () => {
  const { events, watches, clock } = await follow({ onList: oneList });
  await until("the watch", () => watches.length === 1);
  watches[0]?.write(`not JSON\n${JSON.stringify({ type: "MODIFIED", object: object("x", 11) })}\n`);
  await until("the next watch", () => watches.length === 2);
  assert.equal(events, ["added x 5", "synced", "added x 5", "synced"], "what came after the line was not trusted");
  assert.equal(clock.delays, [800]);
});

test("listWatch lists again, after a pause, when a watch ends with another error", async () => {
  const { watches, lists, clock } = await follow({ onList: oneList });
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("ERROR", { kind: "Status", metadata: {}, code: 500, message: "etcd is unwell" });
  await until("the next watch", () => watches.length === 2);
  assert.is(lists.length, 2);
  assert.equal(clock.delays, [800]);
});

test("listWatch goes on after a consumer throws, and logs it", async () => {
  const errors: object[] = [];
  let seen = 0;
  const { watches } = await follow(
    { onList: oneList },
    {
      onEvent: () => {
        seen += 1;
        throw new Error("cannot take it");
      },
      log: { ...silentLog, error: (fields) => errors.push(fields) },
    },
  );
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("MODIFIED", object("x", 11));
  watches[0]?.send("MODIFIED", object("x", 12));
  await until("the events", () => seen === 4);
  assert.equal(
    errors.map((fields) => (fields as { key?: string }).key),
    ["a/x", undefined, "a/x", "a/x"],
  );
  assert.is(watches.length, 1);
});

test("listWatch tries a refused list and a refused watch again with growing delays", async () => {
  const { watches, clock, events } = await follow({
    onList: (_, count) => (count <= 2 ? { status: 503 } : oneList()),
    onWatch: (_, count) => (count <= 2 ? 403 : undefined),
  });
  await until("the watch", () => watches.length === 3);
  assert.equal(clock.delays, [800, 1600, 3200, 5000]);
  assert.equal(events, ["added x 5", "synced"]);
});

test("listWatch is synced when its watch is open, and not before: what comes in between would not be shown", async () => {
  let isRefused = true;
  let isSynced = false;
  const { watches, events, synced } = await follow({ onList: oneList, onWatch: () => (isRefused ? 403 : undefined) });
  void synced.then(() => {
    isSynced = true;
  });
  await until("some tries", () => watches.length >= 3);
  assert.equal(events, ["added x 5", "synced"]);
  assert.not(isSynced);
  isRefused = false;
  await synced;
});

test("listWatch tries again while nobody listens", async () => {
  const { server, watches, clock } = await follow({ onList: oneList });
  await until("the watch", () => watches.length === 1 && clock.pending() === 1);
  const port = Number(new URL(server.url).port);
  await server.close();
  await until("some tries", () => clock.delays.length >= 3);
  collection = await startFakeCollection({ onList: oneList, port });
  await until("the watch", () => collection?.watches.length === 1);
  assert.is(collection.lists.length, 1, "its store may have been restored meanwhile");
});

test("listWatch ends when its signal is aborted, wherever it stands, and leaves no connection", async () => {
  const stages: [name: string, scripted: FakeScript, reached: (on: Following & FakeCollection) => boolean][] = [
    ["watching", { onList: oneList }, ({ watches, clock }) => watches.length === 1 && clock.pending() === 1],
    ["trying", { onList: () => ({ status: 500 }) }, ({ lists }) => lists.length >= 5],
    ["before the first answer", { onList: oneList }, () => true],
  ];
  for (const [name, scripted, reached] of stages) {
    const run = await follow(scripted);
    await until(name, () => reached(run));
    run.stop.abort();
    await run.done;
    assert.is(run.clock.pending(), 0, `${name}: a timer is left`);
    if (name !== "watching") assert.instance(await run.synced.catch((error: unknown) => error), Error);
    transport?.close();
    await until(`${name}: connections to close`, () => run.server.connections() === 0);
    await run.server.close();
  }
});

test("listWatch fails when the cluster's history went back", async () => {
  const refusing: FakeScript["onWatch"] = () => 410;
  const onceOpen: FakeScript["onWatch"] = (watch, count) => {
    if (count > 1) return 410;
    watch.send("BOOKMARK", bookmark(1500));
    watch.end();
    return undefined;
  };
  // Behind the first list, and behind what only a watch has shown.
  for (const [onWatch, second, reached] of [
    [refusing, "400", "1000"],
    [onceOpen, "1200", "1500"],
  ] as const) {
    const { done, server } = await follow({
      onList: (_, count) => ({ resourceVersion: count === 1 ? "1000" : second }),
      onWatch,
    });
    const error = await done.catch((cause: unknown) => cause);
    assert.instance(error, HistoryError);
    assert.match(String(error), `the list of configmaps is at ${second}, after ${reached}`);
    transport?.close();
    await server.close();
  }
});

test("listWatch lists again after the server was away, whose store may have been restored", async () => {
  const run = await follow({
    onList: () => ({ resourceVersion: "10" }),
    onWatch: (_, count) => (count === 2 ? 503 : undefined),
  });
  const end = run.done.catch((error: unknown) => error);
  await until("the watch", () => run.watches.length === 1);
  run.watches[0]?.send("ADDED", object("x", 11));
  await until("the event", () => run.events.length === 2);
  run.watches[0]?.cut();
  const error = await end;
  assert.instance(error, HistoryError);
  assert.match(String(error), "the list of configmaps is at 10, after 11");
  assert.is(run.watches.length, 2);
});

test("listWatch forgets what a list has shown that then failed", async () => {
  const { events, synced } = await follow(
    {
      onList: (query, count) => {
        if (query.has("continue")) return { status: 500 };
        if (count === 1) return { resourceVersion: "10", continue: "next", items: [object("x", 5), object("y", 6)] };
        return { resourceVersion: "12", items: [object("y", 6)] };
      },
    },
    { knownObjects: () => [object("x", 5), object("y", 6)] },
  );
  await synced;
  assert.equal(events.slice(2), ["added y 6", "deleted x 12", "synced"]);
});

test("listWatch lists again when a bookmark is older than what was seen", async () => {
  const { watches, lists, clock } = await follow({
    onList: (_, count) => ({ resourceVersion: count === 1 ? "1000" : "2000" }),
  });
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("BOOKMARK", bookmark(400));
  await until("the next watch", () => watches.length === 2);
  assert.is(lists.length, 2);
  assert.equal(clock.delays, [800]);
});

test("listWatch reports its states", async () => {
  const states: string[] = [];
  const { watches, stop, done } = await follow({ onList: oneList }, { onState: ({ kind }) => states.push(kind) });
  await until("the watch", () => states.at(-1) === "watching");
  watches[0]?.end();
  await until("the next watch", () => states.length === 5);
  stop.abort();
  await done;
  assert.equal(states, ["empty", "init-listed", "watching", "init-listed", "watching"]);
});

/**
 * One thing that happens to the server: a change, or the end of a watch, cleanly, by a cut, or with its history
 * forgotten.
 */
const happening = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom("put", "delete"), name: fc.constantFrom("x", "y", "z") }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom("end", "cut", "expire", "bookmark"), name: fc.constant("") }),
  },
);

test("listWatch ends up with what the server has, whatever happened to its watches", async () => {
  const property = fc.asyncProperty(fc.array(happening, { maxLength: 40 }), async (happenings) => {
    let version = 100;
    let forgotten = 0;
    const live = new Map<string, ReturnType<typeof object>>();
    const history: { version: number; type: string; changed: ReturnType<typeof object> }[] = [];
    const held = new Map<string, string>();
    let problem = "";
    let open: { send(type: string, changed: unknown): void; end(): void; cut(): void } | undefined;
    const run = await follow(
      {
        onList: () => ({ resourceVersion: String(version), items: [...live.values()] }),
        onWatch: (watch) => {
          const from = Number(watch.query.get("resourceVersion"));
          if (from < forgotten) return 410;
          open = watch;
          for (const { version: at, type, changed } of history) if (at > from) watch.send(type, changed);
          return undefined;
        },
      },
      {
        onEvent: (event) => {
          if (event.type === "synced") return;
          const { name, resourceVersion = "" } = event.object.metadata;
          if (event.type === "deleted" && !held.has(name)) problem = `${name} was deleted twice`;
          if (event.type === "deleted") held.delete(name);
          else held.set(name, resourceVersion);
        },
      },
    );
    await run.synced;
    for (const { kind, name } of happenings) {
      const existed = live.get(name);
      if (kind === "put" || (kind === "delete" && existed)) {
        version += 1;
        const changed = object(name, version);
        const type = kind === "delete" ? "DELETED" : existed ? "MODIFIED" : "ADDED";
        if (kind === "put") live.set(name, changed);
        else live.delete(name);
        history.push({ version, type, changed });
        open?.send(type, changed);
      } else if (kind === "bookmark") {
        open?.send("BOOKMARK", bookmark(version));
      } else if (kind !== "delete") {
        if (kind === "expire") forgotten = version + 1;
        if (kind === "expire") version += 1;
        if (kind === "end") open?.end();
        else open?.cut();
        open = undefined;
        await until("the next watch", () => open !== undefined);
      }
    }
    const expected = [...live.values()].map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`).sort();
    await until(
      `${expected} to be held`,
      () => String([...held].map((entry) => entry.join(" ")).sort()) === String(expected),
    );
    assert.is(problem, "");
    run.stop.abort();
    await run.done;
    transport?.close();
    await run.server.close();
  });
  await fc.assert(property, { numRuns: 25 });
});

test("what a resource cuts is cut from lists and from watch events", async () => {
  const cut = (json: Buffer) => Buffer.from(json.toString().replaceAll('"whole-', '"'));
  const { events } = await follow(
    {
      onList: () => ({ resourceVersion: "10", items: [object("whole-x", 5)] }),
      onWatch: (watch) => void watch.send("ADDED", object("whole-y", 11)),
    },
    { resource: { ...configMaps, cut } },
  );
  await until("the event", () => events.length === 3);
  assert.equal(events, ["added x 5", "synced", "added y 11"]);
});

test.run();
