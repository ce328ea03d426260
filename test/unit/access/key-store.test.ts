// @runtimes bun node deno
import { createHash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { createKeyStore, type KeyStore, watchKeys, withoutContent } from "../../../edge/access/key-store.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { eventually } from "../../eventually.ts";
import { startFakeCollection } from "../client/fake-collection.ts";
import { type ManualClock, manualClock, turns } from "../manual-clock.ts";
import { MemoryApi } from "../memory-api.ts";
import { memoryInformer } from "../memory-informer.ts";
import { closeAfter, closeAll } from "../proxy/start-proxy.ts";
import { silentLog } from "../silent-log.ts";
import { newKey } from "./key-secrets.ts";

const test = suite("watchKeys");
test.after.each(closeAll);

/** Keys over the API in memory. */
async function memoryKeys(clock: ManualClock = manualClock()) {
  const api = new MemoryApi("keys");
  const warned: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warned.push(fields) };
  const informer = memoryInformer(api, { resource: secrets, indexes: {}, transform: withoutContent });
  let endWatch = (): void => undefined;
  const done = new Promise<void>((resolve) => {
    endWatch = resolve;
  });
  const keys = createKeyStore({ informer: { ...informer, done }, isFresh: () => true, namespace: "keys", clock, log });
  await turns();
  const put = (secret: Secret): Secret => api.add(secrets, secret);
  const remove = (id: string): void => api.remove(secrets, `key-${id}`);
  return { api, keys, put, remove, clock, warned, endWatch };
}

test("actorOf returns one actor for a key, and none for another text, id or secret", async () => {
  const { keys, put } = await memoryKeys();
  const [one, other] = [newKey({ role: "tenant", tenants: ["alice", "team-*"] }), newKey()];
  put(one.secretAt(1));
  const actor = keys.actorOf(one.text);
  assert.is(actor?.id, one.id);
  assert.is(actor?.role, "tenant");
  assert.equal(actor?.tenants, ["alice", "team-*"]);
  assert.not.ok(actor?.ended.aborted);
  assert.is(keys.actorOf(one.text), actor);
  for (const text of ["", "secret", other.text, one.text.slice(0, 20) + other.text.slice(20), ` ${one.text}`])
    assert.is(keys.actorOf(text), undefined, text);
  put(other.secretAt(2));
  assert.is(keys.actorOf(other.text)?.tenants, undefined);
  assert.equal(
    keys.list(),
    [one, other].map(({ record }) => record).sort((a, b) => (a.id < b.id ? -1 : 1)),
  );
});

test("a key that is deleted or changed ends its actor; a change of other labels does not", async () => {
  const { api, keys, put, remove } = await memoryKeys();
  const key = newKey();
  put(key.secretAt(1));
  const first = keys.actorOf(key.text);
  const labelled = key.secretAt(2);
  put({ ...labelled, metadata: { ...labelled.metadata, labels: { ...labelled.metadata.labels, team: "a" } } });
  assert.is(keys.actorOf(key.text), first);
  assert.is(first?.ended.aborted, false);

  put(key.secretAt(3, { role: "reader" }));
  assert.is(first?.ended.aborted, true);
  const second = keys.actorOf(key.text);
  assert.is(second?.role, "reader");
  assert.is(second?.ended.aborted, false);

  remove(key.id);
  assert.is(second?.ended.aborted, true);
  assert.is(keys.actorOf(key.text), undefined);
  assert.equal(keys.list(), []);

  // With a cache that lags, as the call that deleted it knows.
  const again = newKey();
  const secret = put(again.secretAt(4));
  const third = keys.actorOf(again.text);
  keys.end({ metadata: { ...secret.metadata, uid: "of-an-earlier-one" } });
  assert.is(keys.actorOf(again.text), third);
  keys.end(secret);
  assert.is(third?.ended.aborted, true);
  assert.is(keys.actorOf(again.text), undefined);
  put(again.secretAt(5, { role: "admin" }));
  assert.is(keys.actorOf(again.text), undefined);
  assert.equal(keys.list(), []);
  api.remove(secrets, `key-${again.id}`);
});

test("a key ends when it expires, also in months", async () => {
  const { keys, put, clock } = await memoryKeys();
  const days = (count: number) => new Date(clock.now() + count * 86_400_000).toISOString();
  const [long, past] = [newKey({ expiresAt: days(60) }), newKey({ expiresAt: days(0) })];
  put(long.secretAt(1));
  put(past.secretAt(2));
  assert.is(keys.actorOf(past.text), undefined);
  const actor = keys.actorOf(long.text);
  for (let hour = 0; hour < 60 * 24 - 1; hour += 1) await clock.runNext();
  assert.is(actor?.ended.aborted, false);
  await clock.runNext();
  assert.is(actor?.ended.aborted, true);
  assert.is(keys.actorOf(long.text), undefined);
  assert.is(clock.pending(), 0);
  assert.is(keys.list().length, 2);
});

test("a call after the expiry ends the actor also while its timer is late", async () => {
  const { keys, put, clock } = await memoryKeys();
  const key = newKey({ expiresAt: new Date(clock.now() + 60_000).toISOString() });
  put(key.secretAt(1));
  const actor = keys.actorOf(key.text);
  clock.set(clock.now() + 60_000);
  assert.is(keys.actorOf(key.text), undefined);
  assert.is(actor?.ended.aborted, true);
  assert.is(clock.pending(), 0);
});

test("a timer that is early by the time of day does not end a key", async () => {
  const { keys, put, clock } = await memoryKeys();
  const key = newKey({ expiresAt: new Date(clock.now() + 60_000).toISOString() });
  put(key.secretAt(1));
  const actor = keys.actorOf(key.text);
  clock.set(clock.now() - 30_000);
  await clock.runNext();
  assert.is(actor?.ended.aborted, false);
  await clock.runNext();
  assert.is(actor?.ended.aborted, true);
});

test("a Secret that breaks a rule is logged once, by its name and the reason, and takes no other key with it", async () => {
  const { keys, put, warned } = await memoryKeys();
  const [broken, good] = [newKey(), newKey()];
  const bad = (version: number): Secret => ({ ...broken.secretAt(version), data: { "key.json": "aGlkZGVu" } });
  put(bad(1));
  put(good.secretAt(2));
  put(bad(3));
  assert.is(keys.actorOf(broken.text), undefined);
  assert.ok(keys.actorOf(good.text));
  assert.equal(warned, [{ namespace: "keys", secret: `key-${broken.id}`, problem: "key.json: must be JSON" }]);
  put(broken.secretAt(4));
  assert.ok(keys.actorOf(broken.text));
});

test("what was given for a key holds until the key is changed, replaced, deleted or has expired", async () => {
  const { keys, put, remove, clock } = await memoryKeys();
  const key = newKey({ role: "tenant", tenants: ["a"] });
  const refs = new Set<string>();
  const given = (secret: Secret): string => {
    put(secret);
    const { ref = "" } = keys.actorOf(key.text) ?? {};
    assert.is(keys.actorWithRef(ref), keys.actorOf(key.text));
    assert.is(keys.holds(ref), true);
    for (const old of refs) assert.equal([keys.actorWithRef(old), keys.holds(old)], [undefined, false]);
    refs.add(ref);
    return ref;
  };
  const first = given(key.secretAt(1));
  // As before keys could have workloads and rates: an upgrade ends no session and no link.
  const { id, sha256, role } = key.record;
  const digest = createHash("sha256")
    .update(JSON.stringify([`uid-${id}`, sha256, role, ["a"]]))
    .digest("hex");
  assert.is(first, `${id}-${digest.slice(0, 32)}`);
  given(key.secretAt(2, { tenants: ["b"] }));
  given(key.secretAt(2, { tenants: ["b"], workloads: ["web"] }));
  assert.equal(keys.actorOf(key.text)?.workloads, ["web"]);
  given(key.secretAt(2, { tenants: ["b"], workloads: ["web-*"] }));
  given(key.secretAt(3, { role: "reader" }));
  remove(key.id);
  assert.is(
    [...refs].some((ref) => keys.holds(ref)),
    false,
  );
  const again = key.secretAt(4, { role: "reader" });
  given({ ...again, metadata: { ...again.metadata, uid: "another" } });
  const expires = key.secretAt(5, { expiresAt: new Date(clock.now() + 1000).toISOString() });
  const last = given({ ...expires, metadata: { ...expires.metadata, uid: "a-third" } });
  clock.set(clock.now() + 1000);
  assert.equal([keys.actorWithRef(last), keys.holds(last)], [undefined, false]);
});

test("once the watch has ended, every actor is ended and no key counts", async () => {
  const { keys, put, endWatch } = await memoryKeys();
  const key = newKey();
  put(key.secretAt(1));
  const actor = keys.actorOf(key.text);
  endWatch();
  await turns();
  assert.is(actor?.ended.aborted, true);
  assert.ok(isStale(keys, key.text));
});

function isStale(keys: KeyStore, text: string): boolean {
  try {
    keys.actorOf(text);
    return false;
  } catch (error) {
    assert.instance(error, HttpError);
    assert.is((error as HttpError).status, 503);
    assert.is((error as HttpError).headers["retry-after"], "1");
    assert.throws(() => keys.list(), /not current/);
    assert.is(keys.holds("any"), undefined);
    // The root key is no business of this store.
    assert.is(keys.actorOf("the-value-of-TENANCY_API_KEY"), undefined);
    return true;
  }
}

test("no key counts before the first list and its watch, nor two seconds after a watch has ended", async () => {
  const key = newKey();
  let isRefused = true;
  const collection = await startFakeCollection({
    onList: () => ({ resourceVersion: "10", items: [key.secretAt(5)] }),
    onWatch: () => (isRefused ? 503 : undefined),
  });
  const transport = createTransport({ config: { server: collection.server.url } });
  const stop = new AbortController();
  closeAfter(async () => {
    stop.abort();
    transport.close();
    await collection.server.close();
  });
  const clock = manualClock();
  const client = createClusterClient({ transport });
  const keys = watchKeys({ client, namespace: "keys", signal: stop.signal, log: silentLog, clock });
  assert.ok(isStale(keys, key.text));
  await eventually(() => collection.watches.length === 1);
  assert.ok(isStale(keys, key.text));
  assert.is(keys.isKnown(), false);
  isRefused = false;
  await eventually(async () => {
    if ((clock.nextIn() ?? Number.POSITIVE_INFINITY) < 10_000) await clock.runNext();
    return keys.isKnown();
  });
  for (const query of [...collection.lists, ...collection.watches.map((one) => one.query)])
    assert.is(query.get("labelSelector"), "tenancy.dev/use=key");
  const actor = keys.actorOf(key.text);
  assert.ok(actor);

  isRefused = true;
  collection.watches.at(-1)?.cut();
  const seen = collection.watches.length;
  await eventually(async () => {
    if (collection.watches.length === seen && (clock.nextIn() ?? Number.POSITIVE_INFINITY) < 10_000)
      await clock.runNext();
    return collection.watches.length > seen;
  });
  clock.set(clock.now() + 2000);
  assert.ok(isStale(keys, key.text));
  assert.is(actor?.ended.aborted, false);
  stop.abort();
  await keys.done;
  await turns();
  assert.is(actor?.ended.aborted, true);
  assert.ok(isStale(keys, key.text));
});

/** Keys whose first list ends when the test says so. */
function unreadKeys() {
  const clock = manualClock();
  const errors: object[] = [];
  const log = { ...silentLog, error: (fields: object) => void errors.push(fields) };
  const informer = memoryInformer(new MemoryApi("keys"), { resource: secrets, indexes: {}, transform: withoutContent });
  const [synced, done] = [createDeferred<void>(), createDeferred<void>()];
  const waiting = { ...informer, synced: synced.promise, done: done.promise };
  let isFresh = true;
  const keys = createKeyStore({ informer: waiting, isFresh: () => isFresh, namespace: "keys", clock, log });
  const outage = () => {
    isFresh = false;
  };
  return { keys, clock, errors, synced, done, outage };
}

test("requests may be sent once the keys have been read, and an outage later changes that no more", async () => {
  const { keys, clock, errors, synced, outage } = unreadKeys();
  assert.is(keys.isReady(), false);
  await clock.pass(59_000);
  assert.is(keys.isReady(), false);
  synced.resolve();
  await turns();
  assert.equal([keys.isReady(), clock.pending()], [true, 0]);
  outage();
  assert.is(keys.isReady(), true);
  assert.ok(isStale(keys, newKey().text));
  assert.equal(errors, []);
});

test("keys that cannot be read close the service for a minute at most, and the log says what to apply", async () => {
  const { keys, clock, errors, done } = unreadKeys();
  await clock.pass(60_000);
  assert.is(keys.isReady(), true);
  assert.ok(isStale(keys, newKey().text));
  assert.match(JSON.stringify(errors), "Secrets of namespace keys can be listed: apply manifests/keys");
  done.resolve();
  const stopped = unreadKeys();
  stopped.done.resolve();
  await turns();
  assert.is(stopped.clock.pending(), 0);
});

test.run();
