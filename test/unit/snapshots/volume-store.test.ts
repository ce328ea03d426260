import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { Agent, createServer, request as requestOverHttp, type Server } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { type SnapshotStore, StoreConflict, StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection, type StoreEndpoint } from "../../../crds/snapshots/store-connection.ts";
import { MARK, TOKEN as TOKEN_HEADER } from "../../../crds/snapshots/store-protocol.ts";
import { createDeferred, within } from "../../../crds/waits.ts";
import { createSnapshotServer } from "../../../operator/snapshots/helper/server.ts";
import { createVolume } from "../../../operator/snapshots/helper/store/volume.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { errorOf } from "../../error-of.ts";
import { localExec } from "./local-exec.ts";
import { shellStore } from "./shell-store.ts";
import { staticBusybox } from "./static-busybox.ts";
import { call, key, listAll, load, MOST, namesOf, pieces, save, testStore } from "./store-contract.ts";
import { clockWithoutPauses, serveStore, TOKEN } from "./store-server.ts";
import { volumeSuite } from "./volume-suite.ts";

const test = volumeSuite("the volume's store");

testStore(test);

const digest = (content: string): string => createHash("sha256").update(content).digest("hex");

test("archives are files that are named as the specification says, and nothing else is left", async ({
  root,
  store,
}) => {
  await save(store, "one");
  await save(store, "two", key, { keep: "replaced" });
  assert.is(readFileSync(join(root, "a.b/c.tar.gz.tar.gz"), "utf8"), "two");
  const [one, two] = ["one", "two"].map((content) => digest(content).slice(0, 16));
  const names = readdirSync(root, { recursive: true }).map(String).sort();
  assert.equal(names, [
    ".helper",
    ".marked",
    "a.b",
    "a.b/.versions",
    "a.b/.versions/c.tar.gz",
    `a.b/.versions/c.tar.gz/${one}.tar.gz`,
    `a.b/.versions/c.tar.gz/${one}.tar.gz.${one}.json`,
    "a.b/c.tar.gz.tar.gz",
    ...[one, two].map((digits) => `a.b/c.tar.gz.tar.gz.${digits}.json`).sort(),
  ]);
  await store.delete(key, call);
  assert.equal(readdirSync(root), [".helper", ".marked"]);
});

test("what the version before has saved is read, replaced, kept and deleted, and the other way round", async ({
  root,
  store,
}) => {
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
  const shell = shellStore(localExec, folder);
  await shell.write(key, "zero");
  const written = await shell.write(key, "by the shell", { keeps: true });
  const { newest, versions } = await store.look(key, call);
  assert.equal([newest, versions.map(({ sha256 }) => sha256)], [written, [digest("zero")]]);
  assert.equal([await load(store), await load(store, key, digest("zero"))], ["by the shell", "zero"]);

  await save(store, "by the program", key, { keep: "replaced" });
  assert.is(await load(store, key, written.sha256), "by the shell");
  const found = await shell.digestOf(key);
  assert.is(found, digest("by the program"));
  assert.is(await shell.digestOf(key, written.sha256), written.sha256);
  assert.is((await shell.list()).length, 1);
  await shell.write(key, "the shell again", { replaces: found, keeps: true });
  assert.is(await load(store), "the shell again");
  assert.is(await shell.delete(key), true);
  assert.is((await store.look(key, call)).state, "none");
});

test("what is no archive on the volume is passed over", async ({ root, store }) => {
  writeFileSync(join(root, "secret.tar.gz"), "a file where a tenant's folder could be");
  mkdirSync(join(root, "lost+found"));
  mkdirSync(join(root, ".contexts/w"), { recursive: true });
  await save(store, "one");
  writeFileSync(join(root, "a.b", "Not-a-name.tar.gz"), "");
  assert.is((await listAll(store, { versions: true })).length, 1);
  await store.tidy(call);
  assert.is(await load(store), "one");
});

test("a commit waits for a command of the version before that holds the tenant's lock", async ({ root, store }) => {
  await save(store, "before");
  const [boot] = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").split("-");
  const stat = readFileSync(`/proc/${process.ppid}/stat`, "utf8");
  const start = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  const lock = join(root, "a.b/.lock");
  symlinkSync(`${boot}.${process.ppid}.${start}`, lock);
  const saving = save(store, "after");
  await waitUntil(() => readdirSync(join(root, "a.b")).some((name) => name.endsWith(".partial")), {
    what: "the archive to arrive",
    limitMs: 10_000,
    intervalMs: 5,
  });
  assert.is(await load(store), "before");
  rmSync(lock);
  await saving;
  assert.is(await load(store), "after");

  // One that was killed holds nothing any more.
  symlinkSync(`${boot}.${process.ppid}.1`, lock);
  await save(store, "after the dead");
  assert.is(existsSync(lock), false);
});

test("a client that waits for the volume is told so now and then", async ({ folder }) => {
  const root = join(folder, "slow");
  mkdirSync(root);
  const served = await serveStore(root, { aliveMs: 10 });
  try {
    await save(served.store, "before");
    const [boot] = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").split("-");
    const stat = readFileSync(`/proc/${process.ppid}/stat`, "utf8");
    const lock = join(root, "a.b/.lock");
    symlinkSync(`${boot}.${process.ppid}.${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]}`, lock);
    const { host, port } = served.endpoint.options;
    const headers = { [TOKEN_HEADER]: TOKEN };
    const path = "/v1/keys/a.b/c.tar.gz";
    const told = createDeferred<void>();
    let isTold = false;
    const status = await new Promise((resolve, reject) => {
      const asked = requestOverHttp({ host, port, path, method: "DELETE", headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asked.on("information", ({ statusCode }) => {
        if (statusCode !== 102) return;
        // Once: the lock that is there afterwards is the server's own.
        if (!isTold) rmSync(lock);
        isTold = true;
        told.resolve();
      });
      asked.on("error", reject).end();
    });
    await told.promise;
    assert.is(status, 200);
    assert.is((await served.store.look(key, call)).state, "none");
  } finally {
    await served.close();
  }
});

test("an archive that is given to another tenant is in use from then on, however old it is", async ({
  root,
  store,
}) => {
  const { metadata } = await save(store, "old");
  utimesSync(join(root, "a.b", "c.tar.gz.tar.gz"), 1000, 1000);
  const other = { tenantId: "other", workloadRef: "w" };
  const { revision: replaces } = await store.look(other, call);
  const createdAt = "2026-11-22T00:00:00.000Z";
  await store.adopt(other, { ...key, sha256: metadata.sha256 }, { ...call, replaces, most: MOST, createdAt });
  assert.is(await store.delete(other, { ...call, unusedForMs: 60_000 }), false);
  assert.is(await load(store, other), "old");
});

test("a save that another has overtaken never takes its place, however late it goes on", async ({ store }) => {
  await save(store, "before");
  const { revision: replaces } = await store.look(key, call);
  const begun = createDeferred<void>();
  const goOn = createDeferred<void>();
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("the beginning of the late one");
    begun.resolve();
    await goOn.promise;
    yield Buffer.from("the end of it");
  }
  const late = errorOf(save(store, slow(), key, { replaces }));
  await begun.promise;
  await save(store, "the second");
  goOn.resolve();
  assert.ok(await late);
  assert.is(await load(store), "the second");
});

test("an upload that is cut off is never there, and leaves nothing", async ({ root, store, served }) => {
  await save(store, "before");
  const { host, port } = served.endpoint.options;
  const request = requestOverHttp({
    ...{ host, port, method: "PUT", path: `/v1/uploads/a.b/c.tar.gz/${"0".repeat(32)}` },
    headers: { [TOKEN_HEADER]: TOKEN, "transfer-encoding": "chunked" },
  });
  request.on("error", () => undefined);
  request.write("the beginning");
  const partial = () => readdirSync(join(root, "a.b")).some((name) => name.endsWith(".partial"));
  await waitUntil(partial, { what: "the upload to begin", limitMs: 10_000, intervalMs: 5 });
  request.destroy();
  await waitUntil(() => !partial(), { what: "the upload to be dropped", limitMs: 10_000, intervalMs: 5 });
  assert.is(await load(store), "before");
});

test("a save that is not put in its place leaves nothing, for whatever reason", async ({ root, store }) => {
  const first = { ...key, tenantId: "first" };
  const { revision: stale } = await store.look(first, call);
  const all = { ...call, most: MOST };
  const fenced = (to: SnapshotKey, replaces: string) =>
    store.put(to, pieces("late"), {
      ...{ ...all, replaces },
      describe() {
        throw new Error("another operator may be at work");
      },
    });
  assert.match(String(await errorOf(fenced(first, stale))), /another operator/);
  assert.equal(readdirSync(root), [".marked"]);
  await save(store, "before", first);
  const files = readdirSync(join(root, "first"));
  const { revision } = await store.look(first, call);
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.alloc(2_000_000);
    throw new Error("the pod is gone");
  }
  for (const [attempt, why] of [
    [() => fenced(first, revision), /another operator/],
    [() => save(store, broken(), first), /the pod is gone/],
    [() => save(store, "late", first, { replaces: stale }), /has changed since this save began/],
    [() => save(store, "too much", first, { most: { tenantBytes: 3 } }), /TENANCY_SNAPSHOT_TENANT_LIMIT/],
  ] as const) {
    assert.match(String(await errorOf(attempt())), why);
    assert.equal(readdirSync(join(root, "first")), files, String(why));
  }
  assert.is(await load(store, first), "before");
});

test("a copy that fails leaves nothing, and what one was killed in goes with the archive", async ({ root, store }) => {
  const { metadata } = await save(store, "of a");
  const folder = join(root, key.tenantId);
  const archive = join(folder, `${key.workloadRef}.tar.gz`);
  // No link can be made to a folder, and no copy of it.
  rmSync(archive);
  mkdirSync(archive);
  const digits = metadata.sha256.slice(0, 16);
  const record = { ...metadata, sizeBytes: statSync(archive).size };
  writeFileSync(`${archive}.${digits}.json`, JSON.stringify(record));
  const before = readdirSync(folder);
  const to = { tenantId: "fork", workloadRef: "w" };
  const { revision: replaces } = await store.look(to, call);
  const createdAt = "2026-11-22T00:00:00.000Z";
  const copying = store.adopt(to, { ...key, sha256: metadata.sha256 }, { ...call, replaces, most: MOST, createdAt });
  assert.match(String(await errorOf(copying)), /EISDIR/);
  assert.equal(readdirSync(root).sort(), [".helper", ".marked", key.tenantId]);
  assert.match(String(await errorOf(save(store, "another", key, { keep: "replaced" }))), /EISDIR/);
  const versions = readdirSync(join(folder, ".versions", key.workloadRef));
  assert.equal(versions, [`${digits}.tar.gz.${digits}.json`]);
  assert.equal(readdirSync(folder).sort(), [".versions", ...before].sort());

  rmSync(archive, { recursive: true });
  writeFileSync(`${archive}.01234567.partial.${"0".repeat(32)}.partial`, "left behind");
  await store.delete(key, call);
  assert.equal(readdirSync(root), [".helper", ".marked"]);
});

test("what is given up is not committed, and another upload of the same files is", async ({ root, store, served }) => {
  await save(store, "before");
  const { host, port } = served.endpoint.options;
  const ask = async (method: string, id: string, body?: string) => {
    const path = `http://${host}:${port}/v1/uploads/${key.tenantId}/${key.workloadRef}/${id}`;
    const answer = await fetch(path, { method, headers: { [TOKEN_HEADER]: TOKEN }, body: body ?? null });
    assert.is(answer.status, 200, await answer.text());
  };
  const partials = () => readdirSync(join(root, key.tenantId)).filter((name) => name.endsWith(".partial")).length;
  const [one, another] = ["1", "2"].map((digit) => digit.repeat(32)) as [string, string];
  await ask("PUT", one, "one");
  await ask("DELETE", another);
  assert.is(partials(), 1);
  await ask("DELETE", one);
  await ask("DELETE", one);
  assert.is(partials(), 0);
  await save(store, "after");
  assert.is(await load(store), "after");
});

test("a server that starts deletes what arrived before it, and nothing else", async (context) => {
  const { root, store } = context;
  const other = { tenantId: "other", workloadRef: "w" };
  for (const content of ["1", "22"]) await save(store, content, key, { keep: "replaced" });
  const before = readdirSync(root, { recursive: true }).sort();
  const { tenantId, workloadRef } = key;
  mkdirSync(join(root, "new"));
  mkdirSync(join(root, ".contexts/app"), { recursive: true });
  const digits = "0123456789abcdef";
  for (const name of [
    `${tenantId}/${workloadRef}.tar.gz.01234567.partial`,
    `${tenantId}/${workloadRef}.tar.gz.${digits}.json.${digits.repeat(2)}.partial`,
    `${tenantId}/.versions/${workloadRef}/${digits}.tar.gz.${digits.repeat(2)}.partial`,
    "new/app.tar.gz.01234567.partial",
    `.contexts/app/.${digits.repeat(2)}.partial`,
  ])
    writeFileSync(join(root, name), "left behind");
  const again = await serveStore(root);
  try {
    // What arrives since stays.
    const goOn = createDeferred<void>();
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("the beginning, ");
      await goOn.promise;
      yield Buffer.from("the end");
    }
    const saving = save(again.store, slow(), other);
    const left = (): string[] => readdirSync(root, { recursive: true }).map(String).sort();
    const isPartial = (name: string): boolean => name.endsWith(".partial");
    const isDone = (): boolean => {
      const partials = left().filter(isPartial);
      return partials.length === 1 && partials[0]?.startsWith("other/w.") === true;
    };
    await waitUntil(isDone, { what: "the leftovers to go", limitMs: 10_000, intervalMs: 5 });
    await again.store.look(other, call);
    assert.ok(isDone());
    goOn.resolve();
    await saving;
    assert.is(await load(again.store, other), "the beginning, the end");
    await again.store.delete(other, call);
    assert.equal(left(), before);
    assert.is(await load(again.store), "22");
  } finally {
    await again.close();
  }
});

test("a server that starts on a volume without its mark deletes nothing", async ({ root }) => {
  mkdirSync(join(root, "other"));
  writeFileSync(join(root, "other/app.tar.gz.01234567.partial"), "of another program");
  await createVolume({ root }).takeOver();
  assert.equal(readdirSync(join(root, "other")), ["app.tar.gz.01234567.partial"]);
  writeFileSync(join(root, ".marked"), "");
  await createVolume({ root }).takeOver();
  assert.equal(readdirSync(root).sort(), [".helper", ".marked"]);
});

test("a reader gets the archive that it opened, whatever takes its place meanwhile", async ({ store }) => {
  const content = "x".repeat(5_000_000);
  const { metadata } = await save(store, content);
  const opened = await store.open(key, metadata.sha256, call);
  await save(store, "another");
  await store.delete(key, call);
  let bytes = 0;
  for await (const piece of opened?.content ?? []) bytes += piece.length;
  assert.is(bytes, content.length);
});

test("an archive that has changed is found out, and one of which nothing is recorded", async ({ root, store }) => {
  const { metadata } = await save(store, "as it was saved");
  const path = join(root, "a.b/c.tar.gz.tar.gz");
  writeFileSync(path, "as it was SAVED");
  const changed = await errorOf(load(store));
  assert.ok(changed instanceof ArchiveError && changed.reason === "Corrupt", String(changed));
  writeFileSync(path, "cut");
  const { state, revision } = await store.look(key, call);
  assert.is(state, "unrecorded");
  assert.is(await store.open(key, metadata.sha256, call), undefined);
  assert.equal(
    (await listAll(store, { versions: false })).map((entry) => entry.metadata),
    [undefined],
  );
  writeFileSync(path, "cut off");
  assert.instance(await errorOf(store.delete(key, { ...call, replaces: revision })), StoreConflict);
  assert.is(await store.delete(key, call), true);
});

test("an archive of another tenant is neither found, replaced nor deleted", async ({ root, store }) => {
  await save(store, "of a.b");
  mkdirSync(join(root, "other"));
  for (const name of readdirSync(join(root, "a.b"))) {
    writeFileSync(join(root, "other", name), readFileSync(join(root, "a.b", name)));
  }
  const other = { ...key, tenantId: "other" };
  for (const attempt of [() => store.look(other, call), () => store.delete(other, call)]) {
    const error = await errorOf(attempt());
    assert.ok(error instanceof ArchiveError && error.reason === "Foreign", String(error));
  }
});

test("a volume without its mark is not saved to where it was seen with it", async (context) => {
  const { store, root } = context;
  assert.is((await store.look(key, call)).state, "unmarked");
  context.isMarked = true;
  assert.match(String(await errorOf(save(store, "one"))), /the mark that was on the volume is gone/);
  context.isMarked = false;
  await save(store, "one");
  context.isMarked = true;
  await save(store, "two");
  await store.delete(key, call);
  assert.is((await store.look(key, call)).state, "none");
  rmSync(root, { recursive: true });
  assert.instance(await errorOf(store.look(key, call)), StoreError);
  mkdirSync(root);
});

test("nothing is answered without the token", async ({ served, store }) => {
  await save(store, "one");
  for (const token of ["", "another", `${TOKEN}.`, TOKEN.slice(1)]) {
    const stranger = createStoreClient({
      connection: createStoreConnection({ endpoint: async () => ({ ...served.endpoint, token }) }),
    });
    for (const attempt of [() => stranger.look(key, call), () => stranger.delete(key, call), () => load(stranger)]) {
      assert.match(String(await errorOf(attempt())), /a valid token is needed/);
    }
  }
  assert.is(await load(store), "one");
});

test("the token for names is let in for these alone, and an empty one for nothing", async ({ root, store }) => {
  await save(store, "one");
  let namesTokens: string[] = ["for names", "the former"];
  const server = createSnapshotServer({ root, tokens: () => [TOKEN], namesTokens: () => namesTokens });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const options = { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
  const as = (token: string) =>
    createStoreClient({
      connection: createStoreConnection({ endpoint: async () => ({ secure: false, options, token }) }),
    });
  const isOwn = (name: string): boolean => !name.endsWith(".partial");
  const files = () => readdirSync(join(root, key.tenantId)).filter(isOwn);
  const before = files();
  try {
    for (const token of ["for names", "the former", "unknown,for names"]) {
      const looker = as(token);
      assert.equal(await namesOf(looker), [key], token);
      const { newest: { sha256 = "" } = {} } = await store.look(key, call);
      for (const attempt of [
        () => looker.look(key, call),
        () => listAll(looker, { versions: false }),
        () => looker.open(key, sha256, call),
        () => save(looker, "another", key, { replaces: "none" }),
        () => looker.adopt(key, { ...key, sha256 }, { ...call, replaces: "", most: MOST, createdAt: "" }),
        () => looker.delete(key, call),
        () => looker.touch([key], call),
        () => looker.space(call),
        () => looker.usage(call),
        () => looker.tidy(call),
      ]) {
        const error = await errorOf(attempt());
        assert.match(String(error), /^StoreError: Cannot [A-Z]+ \/v1\/\S+: this token allows only GET \/v1\/names$/);
        assert.is((error as StoreError).isTransient, false);
      }
    }
    assert.equal([files(), await load(store)], [before, "one"]);
    // As where the Secret is of an earlier version, or was emptied.
    for (namesTokens of [[], [""]]) {
      for (const token of ["for names", ""]) assert.match(String(await errorOf(namesOf(as(token)))), /a valid token/);
      assert.equal(await namesOf(as(TOKEN)), [key]);
    }
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("what another program answers is no answer", async () => {
  for (const status of [200, 404, 503]) {
    const server = createServer((_request, response) => response.writeHead(status).end("{}"));
    const endpoint = await listen(server);
    const store = createStoreClient({ connection: createStoreConnection({ endpoint: async () => endpoint }) });
    const error = await errorOf(store.look(key, call));
    assert.ok(error instanceof StoreError && error.isTransient, String(error));
    server.close();
  }
});

test("an answer that is lost is asked for again: what was done is done once, and known", async ({ store, served }) => {
  const losing = await startLosing(served.endpoint);
  const lossy = createStoreClient({
    connection: createStoreConnection({ endpoint: async () => losing.endpoint, clock: clockWithoutPauses }),
  });
  try {
    for (const lost of ["POST", "PUT", "DELETE", "GET"] as const) {
      await store.delete(key, call);
      await save(store, "before");
      losing.lose(lost);
      const error = await errorOf(save(lossy, "after", key, { keep: "replaced" }));
      if (lost === "PUT") {
        // Its content is gone; the save as a whole is tried again.
        assert.ok(error !== undefined);
        assert.is(await load(store), "before");
      } else {
        assert.is(error, undefined);
        assert.is(await load(store), "after");
        assert.is((await store.look(key, call)).versions.length, 1);
      }
      losing.lose(lost);
      assert.is(await lossy.delete(key, call), true);
      assert.is((await store.look(key, call)).state, "none");
    }
  } finally {
    await losing.close();
  }
});

test("a deletion is told of only where it was done, whichever of its tries was answered", async ({ store, served }) => {
  const { revision: replaces } = await save(store, "in use");
  const nobody = createServer();
  const { options } = await listen(nobody);
  await new Promise((resolve) => nobody.close(resolve));
  let tries = 0;
  const refusedFirst = createStoreClient({
    connection: createStoreConnection({
      endpoint: async () => (tries++ === 0 ? { ...served.endpoint, options } : served.endpoint),
      clock: clockWithoutPauses,
    }),
  });
  async function deleteWith(client: SnapshotStore, unusedForMs?: number): Promise<boolean> {
    tries = 0;
    return await client.delete(key, { ...call, unusedForMs });
  }
  assert.is(await deleteWith(refusedFirst, 3_600_000), false);
  assert.is(await load(store), "in use");
  const losing = await startLosing(served.endpoint);
  try {
    const lossy = createStoreClient({
      connection: createStoreConnection({ endpoint: async () => losing.endpoint, clock: clockWithoutPauses }),
    });
    losing.lose("DELETE");
    assert.is(await deleteWith(lossy, 3_600_000), false);
    assert.is(await load(store), "in use");
    assert.is(await deleteWith(refusedFirst), true);
    assert.is(await deleteWith(refusedFirst), false, "somebody else has deleted it");
    tries = 0;
    assert.instance(await errorOf(refusedFirst.delete(key, { ...call, replaces })), StoreConflict);
  } finally {
    await losing.close();
  }
});

/** Passes connections on, and once loses the answer to a request of a kind after the server has answered it. */
async function startLosing(to: StoreEndpoint) {
  let wanted: string | undefined;
  const { host = "", port } = to.options;
  const server = createTcpServer((socket) => {
    const onward = connect({ host: String(host), port: Number(port) });
    let isLost = false;
    socket.on("data", (data) => {
      if (wanted !== undefined && data.toString("latin1").startsWith(`${wanted} `)) {
        wanted = undefined;
        isLost = true;
      }
      onward.write(data);
    });
    onward.on("data", (data) => (isLost ? socket.destroy() : socket.write(data)));
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port: own } = server.address() as AddressInfo;
  return {
    endpoint: {
      ...{ secure: false, token: TOKEN },
      options: { host: "127.0.0.1", port: own, agent: new Agent({ keepAlive: false }) },
    } satisfies StoreEndpoint,
    lose: (method: string) => {
      wanted = method;
    },
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}

async function listen(server: Server): Promise<StoreEndpoint> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { secure: false, options: { host: "127.0.0.1", port, agent: new Agent({ keepAlive: false }) }, token: TOKEN };
}

test("every answer of the server says that it is the server's", async ({ served }) => {
  const { host, port } = served.endpoint.options;
  for (const path of ["/", "/healthz", "/v1/keys/a/b", "/v2/keys/a/b", "//", "/v1/keys/..%2f/b"]) {
    const mark = await new Promise((resolve, reject) => {
      const asked = requestOverHttp({ host, port, path, headers: { [TOKEN_HEADER]: TOKEN } }, (response) => {
        response.resume();
        resolve(response.headers[MARK]);
      });
      asked.on("error", reject).end();
    });
    assert.is(mark, "1", path);
  }
});

test("what another server says at its address is in the error, and no more than its beginning is read", async () => {
  const ended = createDeferred<void>();
  const server = createServer((_request, response) => {
    response.on("close", ended.resolve);
    response.writeHead(400).write("the pod has no address yet");
    response.write(Buffer.alloc(16 * 1024 * 1024, "."));
  });
  const endpoint = await listen(server);
  const client = createStoreClient({ connection: createStoreConnection({ endpoint: async () => endpoint }) });
  const error = await errorOf(client.look(key, call));
  assert.ok(error instanceof StoreError && error.isTransient);
  assert.match(error.message, /another server responded 400 the pod has no address yet\.{200,300}$/);
  assert.ok(await within(ended.promise, 30_000), "the rest of it is not read");
  await new Promise((resolve) => server.close(resolve));
});

test("a server that sends the whole archive for a part of it is found out, and its response ended", async ({
  store,
}) => {
  const { metadata } = await save(store, "an archive");
  const ended = createDeferred<void>();
  // As one of an earlier version does. It has more to send than a connection holds.
  const server = createServer((_request, response) => {
    response.on("close", ended.resolve);
    response.setHeader(MARK, "1").write(`${JSON.stringify(metadata)}\n`);
    response.write(Buffer.alloc(16 * 1024 * 1024));
  });
  const endpoint = await listen(server);
  const client = createStoreClient({ connection: createStoreConnection({ endpoint: async () => endpoint }) });
  const error = await errorOf(client.open(key, metadata.sha256, { ...call, range: { from: 0, to: 2 } }));
  assert.match(
    String(error),
    "StoreError: the snapshots server is of an earlier version, which reads whole archives only",
  );
  assert.ok(await within(ended.promise, 30_000), "it is not kept until its silence is noticed after a minute");
  await new Promise((resolve) => server.close(resolve));
});

test.run();
