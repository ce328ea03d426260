import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { compareResourceVersions } from "../../../crds/client/watch/store.ts";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";
import { type ControlPlaneUnderTest, namespace, sharedPlane, until } from "./control-plane-under-test.ts";
import { type Following, follow } from "./following.ts";

const test = suite("watches");
let plane: ControlPlaneUnderTest;
let following: Following | undefined;
let lastWriters: Writers | undefined;

test.before(async () => {
  plane = await sharedPlane();
  // The order of a first list is that of names.
  await plane.client.request({ method: "DELETE", path: `/api/v1/namespaces/${namespace}/configmaps` });
});

test.after.each(async () => {
  await following?.stop();
  following = undefined;
  plane.proxy.admit();
  // What is kept of a frozen connection would cost the next test a page's whole time.
  plane.proxy.cut();
  const writers = lastWriters;
  lastWriters = undefined;
  await writers?.stop();
});

/** Every change of a name follows from the one before: none is missing between them, none comes twice or too late. */
function assertConsistent({ changes }: Following): void {
  const held = new Map<string, string>();
  for (const { type, object, previous } of changes) {
    const { name, resourceVersion = "" } = object.metadata;
    assert.is(previous?.metadata.resourceVersion, held.get(name), `${type} ${name}`);
    assert.is(type === "added", !held.has(name), `${type} ${name}`);
    if (type === "deleted") held.delete(name);
    else held.set(name, resourceVersion);
  }
}

function assertInOrder({ changes }: Following): void {
  let last = "0";
  for (const { object } of changes) {
    const { resourceVersion = "" } = object.metadata;
    assert.ok((compareResourceVersions(last, resourceVersion) ?? 0) < 0, `${resourceVersion} after ${last}`);
    last = resourceVersion;
  }
}

test("an informer sees every write of several writers, each once and in the API server's order", async () => {
  const { client, proxied } = plane;
  following = follow(proxied);
  await following.informer.synced;
  const writers = startWriters(client, { writers: 8 });
  await until("three hundred writes", () => writers.count() >= 300);
  await writers.stop();
  await until("all changes", () => following?.changes.length === writers.count());
  assertConsistent(following);
  assertInOrder(following);
  assert.equal(following.states, ["empty", "init-listed", "watching"]);
});

test("an informer resumes after its stream is cut again and again, and misses nothing", async () => {
  const { client, proxied, proxy } = plane;
  following = follow(proxied);
  const { informer, states, changes } = following;
  await informer.synced;
  const before = changes.length;
  const writers = startWriters(client, { writers: 4 });
  for (let count = 1; count <= 5; count++) {
    const seen = changes.length;
    await until("the stream to run", () => states.at(-1) === "watching" && changes.length > seen + 20);
    const known = states.length;
    proxy.cut();
    await until("the stream to be noticed as cut", () => states.length > known);
  }
  await until("the stream", () => states.at(-1) === "watching");
  await writers.stop();
  await until("all changes", () => changes.length === before + writers.count());
  assertConsistent(following);
  assertInOrder(following);
  assert.is(states.filter((state) => state === "empty").length, 1, "it listed once");
});

test("an informer notices a stream that is dead and resumes on another connection", async () => {
  const { client, proxied, proxy } = plane;
  following = follow(proxied, { timings: { watchTimeoutSeconds: 2, silenceMarginMs: 500 } });
  const { informer, states } = following;
  await informer.synced;
  await until("the stream", () => states.at(-1) === "watching");
  proxy.freeze();
  await client.create(configMaps, { metadata: { name: "while-dead", namespace } });
  await until("the object", () => informer.store.get(`${namespace}/while-dead`) !== undefined);
  assert.is(states.filter((state) => state === "empty").length, 1, "it listed once");
  assertConsistent(following);
});

test("an informer resumes when the API server is stopped, or killed, and started again", async () => {
  const { client, proxied, cluster } = plane;
  following = follow(proxied, { timings: { backoffMs: 100, maxBackoffMs: 500 } });
  const { informer } = following;
  await informer.synced;
  for (const end of ["stop", "kill"] as const) {
    const before = await client.create(configMaps, { metadata: { name: `before-${end}`, namespace } });
    await cluster.apiServer[end]();
    await cluster.apiServer.start();
    const ref = { namespace, name: `before-${end}` };
    await client.patch(configMaps, ref, { type: "merge", body: { data: { after: end } } });
    await until("the change", () => informer.store.get(`${namespace}/before-${end}`)?.data?.after === end);
    assert.is(informer.store.get(`${namespace}/before-${end}`)?.metadata.uid, before.metadata.uid);
  }
  await following.untilEqual(client);
  assertConsistent(following);
});

test("an informer stays right through every fault at once, while others write", async () => {
  const { client, proxied, proxy } = plane;
  const timings = {
    pageTimeoutMs: 3000,
    watchTimeoutSeconds: 1,
    silenceMarginMs: 300,
    backoffMs: 20,
    maxBackoffMs: 100,
  };
  following = follow(proxied, { timings, pageSize: 3 });
  const { informer, changes } = following;
  await informer.synced;
  const writers = startWriters(client, { writers: 4, pauseMs: 20 });
  const faults = [proxy.cut, proxy.freeze, proxy.block, proxy.admit, proxy.cut, proxy.block, proxy.admit, proxy.freeze];
  for (const fault of faults) {
    const written = writers.count();
    const seen = changes.length;
    fault();
    await until("some writes", () => writers.count() > written + 25);
    if (fault !== proxy.block) await until("a change after the fault", () => changes.length > seen);
  }
  await writers.stop();
  await following.untilEqual(client);
  assertConsistent(following);
});

test("an informer shows the answer to a write at once, and never goes back behind it", async () => {
  const { client, proxied } = plane;
  following = follow(proxied);
  const { informer } = following;
  await informer.synced;
  const key = `${namespace}/own`;
  let last = await client.create(configMaps, { metadata: { name: "own", namespace } });
  informer.put(last);
  for (let round = 1; round <= 100; round++) {
    const body = { metadata: { resourceVersion: last.metadata.resourceVersion }, data: { round: String(round) } };
    last = await client.patch(configMaps, { namespace, name: "own" }, { type: "merge", body });
    informer.put(last);
    assert.is(informer.store.get(key)?.data?.round, String(round));
  }
  await client.delete(configMaps, { namespace, name: "own" });
  await until("the deletion", () => informer.store.get(key) === undefined);
  informer.put(last);
  assert.is(informer.store.get(key), undefined);
  assertConsistent(following);
});

test("an informer's watches end in time and go on, without a list, an error or a loss", async () => {
  const { client, proxied, proxy } = plane;
  const warnings: string[] = [];
  const warn = (_: object, message: string) => warnings.push(message);
  const log = { debug: warn, info: warn, warn, error: warn };
  following = follow(proxied, { timings: { watchTimeoutSeconds: 1 }, log });
  const { informer, states } = following;
  await informer.synced;
  const connections = proxy.connections();
  await until("four watches", () => states.filter((state) => state === "watching").length >= 4);
  await following.untilEqual(client);
  assert.equal(warnings, []);
  assert.is(states.filter((state) => state === "empty").length, 1);
  assert.ok(proxy.connections() <= connections + 1, "each watch goes out on the connection of the one before");
});

test.run();

interface Writers {
  /** Writes so far that the API server took. */
  count(): number;
  stop(): Promise<void>;
}

/** Creates, changes and deletes config maps, several at a time, each writer its own names, until it is stopped. */
function startWriters(client: ClusterClient, options: { writers: number; pauseMs?: number }): Writers {
  let stopped = false;
  let count = 0;

  async function write(writer: number): Promise<void> {
    for (let round = 0; !stopped; round++) {
      const ref = { namespace, name: `written-${writer}-${round % 5}` };
      await client.create(configMaps, { metadata: ref, data: { round: "0" } });
      count += 1;
      for (let change = 1; change <= 3 && !stopped; change++) {
        await client.patch(configMaps, ref, { type: "merge", body: { data: { round: String(change) } } });
        count += 1;
        // What waits for a fault to be noticed does not need a busy API server.
        if (options.pauseMs !== undefined) await pause(options.pauseMs);
      }
      await client.delete(configMaps, ref);
      count += 1;
    }
  }

  const all = Promise.all(Array.from({ length: options.writers }, (_, writer) => write(writer)));
  // Whoever stops them is told, and no sooner: it would end the process.
  all.catch(() => undefined);
  lastWriters = {
    count: () => count,
    async stop() {
      stopped = true;
      await all;
    },
  };
  return lastWriters;
}
