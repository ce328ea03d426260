// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { configMaps } from "../../../crds/client/built-in-resources.ts";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTransport, type Transport } from "../../../crds/client/transport.ts";
import { createHandlerFailures } from "../../../crds/client/watch/handler-failures.ts";
import {
  type Change,
  type Informer,
  type InformerOptions,
  startInformer,
} from "../../../crds/client/watch/informer.ts";
import { HistoryError } from "../../../crds/client/watch/listing.ts";
import type { ConfigMap } from "../../../crds/kubernetes.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { type FakeCollection, object, startFakeCollection } from "./fake-collection.ts";

let collection: FakeCollection | undefined;
let transport: Transport | undefined;
let stop = new AbortController();

test.after.each(async () => {
  stop.abort();
  transport?.close();
  await collection?.server.close();
});

async function inform(
  scripted: Parameters<typeof startFakeCollection>[0],
  options: Partial<InformerOptions<ConfigMap, "color">> = {},
): Promise<FakeCollection & { informer: Informer<ConfigMap, "color">; changes: string[] }> {
  collection = await startFakeCollection(scripted);
  transport = createTransport({ config: { server: collection.server.url } });
  stop = new AbortController();
  const changes: string[] = [];
  const informer = startInformer<ConfigMap, "color">({
    client: createClusterClient({ transport }),
    resource: configMaps,
    indexes: { color: ({ metadata }) => metadata.labels?.color },
    onChange: (change) => changes.push(describe(change)),
    signal: stop.signal,
    log: silentLog,
    clock: manualClock(undefined, { longestPauseMs: 30_000 }),
    ...options,
  });
  return { ...collection, informer, changes };
}

function describe({ type, object, previous }: Change<ConfigMap>): string {
  const { name, resourceVersion } = object.metadata;
  return `${type} ${name} ${resourceVersion}${previous ? ` was ${previous.metadata.resourceVersion}` : ""}`;
}

function until(what: string, check: () => boolean): Promise<boolean> {
  return waitUntil(check, { what, limitMs: 60_000, intervalMs: 1 });
}

const oneList = () => ({ resourceVersion: "10", items: [object("x", 5, { labels: { color: "red" } })] });

test("startInformer keeps a store and tells of each change with what was there before", async () => {
  const { informer, watches, changes } = await inform({ onList: oneList });
  await informer.synced;
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("MODIFIED", object("x", 11, { labels: { color: "blue" } }));
  watches[0]?.send("ADDED", object("y", 12));
  watches[0]?.send("DELETED", object("x", 13));
  await until("the changes", () => changes.length === 4);
  assert.equal(changes, ["added x 5", "modified x 11 was 5", "added y 12", "deleted x 13 was 11"]);
  assert.equal(
    [...informer.store.values()].map(({ metadata }) => metadata.name),
    ["y"],
  );
  assert.is(informer.store.by("color", "blue").size, 0);
});

test("startInformer transforms no object that its store has already", async () => {
  const transformed: (string | undefined)[] = [];
  const { informer, watches, changes } = await inform(
    { onList: oneList },
    {
      transform(object) {
        transformed.push(object.metadata.resourceVersion);
        return object;
      },
    },
  );
  await informer.synced;
  await until("the watch", () => watches.length === 1);
  informer.put(object("x", 12));
  watches[0]?.send("MODIFIED", object("x", 11));
  watches[0]?.send("MODIFIED", object("x", 12));
  watches[0]?.send("MODIFIED", object("x", 13));
  await until("the changes", () => changes.length === 3);
  assert.equal(transformed, ["5", "12", "13"]);
});

test("Informer.versions counts what was put as a change that has not been seen", async () => {
  const { informer, watches, changes } = await inform({ onList: oneList });
  await informer.synced;
  informer.put(object("y", 15));
  informer.put(object("x", 12));
  assert.equal(informer.versions(), { seen: "10", changed: "15" });
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("ADDED", object("z", 13));
  await until("the change", () => changes.length === 4);
  assert.equal(informer.versions(), { seen: "13", changed: "15" });
  watches[0]?.send("ADDED", object("w", 16));
  await until("the change", () => changes.length === 5);
  assert.equal(informer.versions(), { seen: "16", changed: "16" });
});

test("Informer.subscribe gives what is there, then each change, until it is ended; one handler that throws keeps none from the others", async () => {
  const { informer, watches, changes } = await inform({ onList: oneList });
  await until("the watch", () => watches.length === 1);
  const seen: string[] = [];
  const endThrowing = informer.subscribe(() => {
    throw new Error("no use");
  });
  const end = informer.subscribe((change) => seen.push(describe(change)));
  watches[0]?.send("MODIFIED", object("x", 11));
  await until("the change", () => changes.length === 2);
  end();
  endThrowing();
  watches[0]?.send("DELETED", object("x", 12));
  await until("the deletion", () => changes.length === 3);
  assert.equal(seen, ["added x 5", "modified x 11 was 5"]);
});

test("Informer.put shows a write at once, and its own watch event later is no second change", async () => {
  const { informer, watches, changes } = await inform({ onList: oneList });
  await until("the watch", () => watches.length === 1);
  const answer = object("x", 12, { labels: { color: "green" } });
  informer.put(answer);
  assert.is(informer.store.get("a/x"), answer);
  assert.is(informer.store.by("color", "green").size, 1);
  watches[0]?.send("MODIFIED", object("x", 11));
  watches[0]?.send("MODIFIED", object("x", 12));
  watches[0]?.send("MODIFIED", object("x", 13));
  await until("the last change", () => changes.length === 3);
  assert.equal(changes, ["added x 5", "modified x 12 was 5", "modified x 13 was 12"]);
});

test("Informer.put of a successor tells of the deletion first, and the late events of the predecessor change nothing", async () => {
  const { informer, watches, changes } = await inform({ onList: oneList });
  await until("the watch", () => watches.length === 1);
  informer.put(object("x", 20, { uid: "successor" }));
  watches[0]?.send("MODIFIED", object("x", 15));
  watches[0]?.send("DELETED", object("x", 19));
  watches[0]?.send("ADDED", object("x", 20, { uid: "successor" }));
  watches[0]?.send("MODIFIED", object("x", 21, { uid: "successor" }));
  await until("the last change", () => changes.length === 4);
  assert.equal(changes, ["added x 5", "deleted x 5 was 5", "added x 20", "modified x 21 was 20"]);
});

test("Informer.put never brings back what the watch has seen deleted", async () => {
  const { informer, watches, changes } = await inform({ onList: oneList });
  await until("the watch", () => watches.length === 1);
  watches[0]?.send("DELETED", object("x", 12));
  await until("the deletion", () => changes.length === 2);
  informer.put(object("x", 11));
  assert.is(informer.store.size, 0);
  assert.is(changes.length, 2);
});

test("startInformer tells only what differs when it had to list again", async () => {
  const { informer, watches, changes } = await inform({
    onList: (_, count) =>
      count === 1
        ? { resourceVersion: "10", items: [object("same", 5), object("old", 6), object("gone", 7)] }
        : { resourceVersion: "90", items: [object("same", 5), object("old", 80), object("new", 81)] },
    onWatch: (_, count) => (count === 2 ? 410 : undefined),
  });
  await until("the watch", () => watches.length === 1);
  informer.put(object("mine", 95));
  watches[0]?.end();
  await until("the next watch", () => watches.length === 3);
  assert.equal(changes.slice(3), ["added mine 95", "modified old 80 was 6", "added new 81", "deleted gone 90 was 7"]);
  assert.ok(informer.store.get("a/mine"), "newer than the list");
});

test("startInformer stores what transform makes of an object", async () => {
  const transform = ({ data: _, ...rest }: ConfigMap): ConfigMap => rest;
  const items = [{ ...object("x", 5), data: { large: "x" } }];
  const { informer } = await inform({ onList: () => ({ resourceVersion: "10", items }) }, { transform });
  await informer.synced;
  assert.equal(informer.store.get("a/x"), object("x", 5));
});

test("startInformer goes on when onChange throws, for each object of a list too", async () => {
  const errors: object[] = [];
  const { informer, watches } = await inform(
    { onList: () => ({ resourceVersion: "10", items: [object("x", 5), object("y", 6)] }) },
    {
      log: { ...silentLog, error: (fields) => errors.push(fields) },
      onChange: () => {
        throw new Error("cannot take it");
      },
    },
  );
  await until("the watch", () => watches.length === 1);
  informer.put(object("z", 12));
  assert.equal(
    errors.map((fields) => (fields as { key?: string }).key),
    ["a/x", "a/y", "a/z"],
  );
  assert.is(informer.store.size, 3);
});

test("startInformer handles the other objects when an index, transform and onChange throw for one, and tells of each once a revision", async () => {
  const errors: object[] = [];
  let count = 0;
  const fail = (object: ConfigMap, at: string): void => {
    if (object.metadata.name === "bad") throw new Error(`cannot ${at}`);
  };
  const handled: string[] = [];
  const log = { ...silentLog, error: (fields: object) => errors.push(fields) };
  const items = ["bad", "x"].map((name) => object(name, 5, { labels: { color: "red" } }));
  const { informer, watches } = await inform(
    { onList: () => ({ resourceVersion: "10", items }) },
    {
      log,
      indexes: {
        color(object) {
          fail(object, "index");
          return object.metadata.labels?.color;
        },
      },
      transform(object) {
        fail(object, "transform");
        return object;
      },
      onChange({ object }) {
        fail(object, "change");
        handled.push(object.metadata.name);
      },
      onFailure: createHandlerFailures({ log, count: () => (count += 1) }),
    },
  );
  await until("the watch", () => watches.length === 1);
  const told = () => errors.map((fields) => (fields as { handler: string; key: string }).handler);
  assert.equal(told(), ["transform", "index color", "onChange"]);
  assert.equal(handled, ["x"]);
  assert.is(informer.store.size, 2);
  assert.is(informer.store.by("color", "red").size, 1);
  const before = count;
  watches[0]?.send("MODIFIED", object("bad", 11));
  watches[0]?.send("MODIFIED", object("x", 12));
  await until("the changes", () => handled.length === 2);
  assert.equal(told().slice(3).sort(), ["index color", "onChange", "transform"]);
  assert.ok(count > before + 3, "each time is counted, also those that are not logged again");
  watches[0]?.send("DELETED", object("bad", 13));
  await until("the deletion", () => informer.store.size === 1);
});

test("an informer ends where a list shows what is known to have changed or ended before it", async () => {
  const items = [object("x", 5), object("y", 6)];
  for (const [type, changed] of [
    ["MODIFIED", object("x", 11)],
    ["DELETED", object("y", 11)],
  ] as const) {
    const { informer, watches, changes } = await inform({
      onList: (_, count) => ({ resourceVersion: count === 1 ? "10" : "2000000", items }),
      onWatch: (_, count) => (count === 1 ? undefined : 410),
    });
    const end = informer.done.catch((error: unknown) => error);
    await until("the watch", () => watches.length === 1);
    watches[0]?.send(type, changed);
    await until("the event", () => changes.length === 3);
    watches[0]?.end();
    const error = await end;
    assert.instance(error, HistoryError);
    assert.match(String(error), `the list of configmaps at 2000000 has a/${changed.metadata.name} as it was before`);
    transport?.close();
    await collection?.server.close();
  }
});

test.run();
