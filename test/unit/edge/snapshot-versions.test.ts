// @runtimes bun node deno
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Callback, suite } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { annotation } from "../../../crds/labels.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { findVersion, type VersionRecord, versionBefore } from "../../../edge/api/snapshots/versions.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { checkpoint } from "../snapshots/checkpoint-contract.ts";
import { call, load, save } from "../snapshots/store-contract.ts";
import { isOverVolume, type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { type SnapshotsFolder, snapshotsFolder } from "./snapshots-folder.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

interface Context {
  volume: SnapshotsFolder;
  served: ServedStore;
  edge: TestEdge;
}

const test = suite<Context>("versions of a snapshot");
/** Of what is done to the volume's own files. */
const testOfVolume: (name: string, run: Callback<Context>) => void = isOverVolume ? test : () => undefined;
const a: SnapshotKey = { tenantId: "a", workloadRef: "app" };
const b: SnapshotKey = { tenantId: "b", workloadRef: "app" };
const OF_A = "/api/v1/tenants/a/snapshots/app";

test.before.each(async (context) => {
  context.volume = snapshotsFolder();
  context.served = await serveStore(context.volume.path);
  context.edge = testEdge({ store: context.served.store, clock: systemClock });
  context.edge.cluster.addSnapshots();
  context.edge.cluster.addWorkload("app");
});
test.after.each(async ({ served, volume }) => {
  await served.close();
  volume.remove();
});

const digest = (content: string): string => createHash("sha256").update(content).digest("hex");
const short = (content: string): string => digest(content).slice(0, 16);

async function saveThree({ served: { store } }: Context): Promise<void> {
  const most = { history: 3 };
  await save(store, "first", a, { createdAt: "2026-11-21T01:00:00.000Z" });
  await save(store, "second", a, { createdAt: "2026-11-21T02:00:00.000Z", keep: "history", most });
  await save(store, "third", a, { createdAt: "2026-11-21T03:00:00.000Z", keep: "replaced", most });
}

async function contents({ edge }: Context, path = OF_A): Promise<[string, boolean, string | undefined][]> {
  const { json } = await edge.call(`GET ${path}/versions`);
  return (json as { sha256: string; newest: boolean; kept?: string }[]).map(({ sha256, newest, kept }) => {
    const of = ["first", "second", "third"].find((content) => digest(content) === sha256);
    return [of ?? sha256, newest, kept];
  });
}

test("all versions are listed, the newest first", async (context) => {
  const { edge } = context;
  assert.is((await edge.call(`GET ${OF_A}/versions`)).status, 404);
  await saveThree(context);
  const answer = await edge.call(`GET ${OF_A}/versions`);
  assert.is(answer.status, 200, answer.text);
  const common = { tenantId: "a", workloadRef: "app" };
  const version = (content: string) => ({ ...common, version: short(content), sha256: digest(content) });
  const older = (content: string) => `/snapshots/a/.versions/app/${short(content)}.tar.gz`;
  assert.equal(answer.json, [
    {
      ...version("third"),
      ...{ path: "/snapshots/a/app.tar.gz", sizeBytes: 5, createdAt: "2026-11-21T03:00:00.000Z", newest: true },
    },
    {
      ...{ ...version("second"), path: older("second"), sizeBytes: 6, createdAt: "2026-11-21T02:00:00.000Z" },
      ...{ newest: false, kept: "replaced" },
    },
    {
      ...{ ...version("first"), path: older("first"), sizeBytes: 5, createdAt: "2026-11-21T01:00:00.000Z" },
      ...{ newest: false, kept: "history" },
    },
  ]);
});

test("checkpoints are marked in the lists, and the version before another one is none of them", async (context) => {
  const { edge, served } = context;
  await saveThree(context);
  for (const session of ["x", "y"]) await checkpoint(served.store, `of ${session}`, { session, to: a });
  const kinds = async (path: string) => {
    const { json } = await edge.call(`GET ${path}`);
    return (json as VersionRecord[]).map(({ sha256, kind, kept }) => [sha256, kind, kept]);
  };
  const expected = [
    [digest("third"), undefined, undefined],
    [digest("of y"), "checkpoint", "replaced"],
    [digest("of x"), "checkpoint", "replaced"],
    [digest("second"), undefined, "replaced"],
    [digest("first"), undefined, "history"],
  ];
  assert.equal(await kinds(`${OF_A}/versions`), expected);
  assert.equal((await kinds("/api/v1/snapshots?versions=true")).sort(), expected.sort());
  assert.equal(await kinds("/api/v1/snapshots"), [[digest("third"), undefined, undefined]]);
  const kept = await served.store.look(a, call);
  const before = (content: string) => versionBefore(kept, findVersion(a, kept, digest(content))).sha256;
  assert.equal(["third", "of y", "of x", "second"].map(before), ["second", "third", "third", "first"].map(digest));
  assert.is(findVersion(a, kept, undefined).sha256, digest("third"));
});

test("the version before a checkpoint is its session's earlier one, or what the session began with", async (context) => {
  const { store } = context.served;
  await saveThree(context);
  await checkpoint(store, "step 1", { session: "x", to: a });
  await store.setName(a, { sha256: digest("step 1"), name: "step-1" }, call);
  await checkpoint(store, "of y", { session: "y", to: a });
  await checkpoint(store, "step 2", { session: "x", to: a });
  const kept = await store.look(a, call);
  const of = (content: string) => findVersion(a, kept, digest(content));
  assert.is(versionBefore(kept, of("step 2")).sha256, digest("step 1"));
  const began = { ...kept, versions: kept.versions.map((one) => ({ ...one, continues: digest("third") })) };
  const first = findVersion(a, began, digest("of y"));
  assert.is(versionBefore(began, first).sha256, digest("third"));
});

test("a tenant with only a checkpoint has no snapshot, and can roll back to it", async (context) => {
  const { edge, served } = context;
  await checkpoint(served.store, "running", { session: "x", to: a });
  assert.equal((await edge.call("GET /api/v1/snapshots")).json, []);
  const { json } = await edge.call(`GET ${OF_A}/versions`);
  assert.equal(
    (json as VersionRecord[]).map(({ kind, newest }) => [kind, newest]),
    [["checkpoint", false]],
  );
  const answer = await edge.call(`POST ${OF_A}/rollback`, { body: { version: short("running") } });
  assert.equal([answer.status, (answer.json as VersionRecord).kind], [200, undefined]);
  assert.is(await load(served.store, a), "running");
  assert.is((await edge.call(`DELETE ${OF_A}`)).status, 200);
  assert.is((await edge.call(`GET ${OF_A}/versions`)).status, 404);
});

test("an erasure leaves what a release saves meanwhile, and is told so", async (context) => {
  const { store } = context.served;
  await saveThree(context);
  let overtake: (() => Promise<unknown>) | undefined = () => save(store, "a session's work", a);
  const looked = {
    ...store,
    async look(...given: Parameters<SnapshotStore["look"]>) {
      const present = await store.look(...given);
      await overtake?.();
      return present;
    },
  };
  const { call, cluster } = testEdge({ store: looked, clock: systemClock });
  cluster.addSnapshots();
  const late = await call(`DELETE ${OF_A}`);
  assert.is(late.status, 409);
  assert.match(late.error ?? "", 'of tenant "a" is another one now: list the versions again');
  assert.is(await load(store, a), "a session's work");
  overtake = undefined;
  assert.is((await call(`DELETE ${OF_A}`)).status, 200);
  assert.is(await load(store, a), undefined);
});

test("an erasure during a session has its release save the files anew, and loses to one that has begun", async (context) => {
  const { edge, served } = context;
  const { cluster } = edge;
  await saveThree(context);
  const session = { tenantId: "a", workloadRef: "app", uid: "u", status: { phase: "Active" } } as const;
  for (const release of [
    () => void cluster.addClaim({ ...session, deleting: true }),
    () => cluster.removeClaim("claim-a-app"),
    () => void cluster.addClaim({ ...session, uid: "another" }),
  ]) {
    cluster.addClaim(session);
    cluster.onNext("patch", release);
    const refused = await edge.call(`DELETE ${OF_A}`);
    assert.is(refused.status, 409);
    assert.match(refused.error ?? "", 'the release of workload "app" by tenant "a" is in progress');
    assert.is(await load(served.store, a), "third");
  }
  cluster.addClaim(session);
  assert.is((await edge.call(`DELETE ${OF_A}`)).status, 200);
  assert.ok(Date.parse(cluster.claim("claim-a-app").metadata.annotations?.[annotation.erasedAt] ?? ""));
  assert.is(await load(served.store, a), undefined);
});

test("a rollback makes an older version the newest, and keeps what was", async (context) => {
  const { edge, served } = context;
  await saveThree(context);
  const rollback = (body: object) => edge.call(`POST ${OF_A}/rollback`, { body });
  const answer = await rollback({ version: short("first"), newest: digest("third") });
  assert.is(answer.status, 200, answer.text);
  assert.equal((answer.json as { sha256: string; newest: boolean }).sha256, digest("first"));
  assert.is(await load(served.store, a), "first");
  assert.ok((await contents(context)).some(([of, newest, kept]) => of === "third" && !newest && kept === "replaced"));
  // It is the newest already.
  assert.is((await rollback({ version: digest("first") })).status, 200);
  const changed = await rollback({ version: short("second"), newest: short("third") });
  assert.is(changed.status, 409);
  assert.match(changed.error ?? "", "is no longer");
  const none = await rollback({ version: "0".repeat(16) });
  assert.is(none.status, 404);
  assert.match(none.error ?? "", `there is no version ${"0".repeat(16)} of it: there are ${short("first")}`);
  for (const body of [{}, { version: "the first" }, { version: short("first"), more: 1 }]) {
    assert.is((await rollback(body)).status, 400);
  }
  assert.is(await load(served.store, a), "first");
});

test("stats tell what all of them take, asked for once a minute, or nothing where that is not known", async (context) => {
  const { served } = context;
  await saveThree(context);
  let asked = 0;
  let failure: Error | undefined;
  const store: SnapshotStore = {
    ...served.store,
    async usage(...given) {
      asked += 1;
      if (failure !== undefined) throw failure;
      return await served.store.usage(...given);
    },
  };
  const clock = manualClock();
  const edge = testEdge({ store, clock });
  edge.cluster.addSnapshots();
  const stats = async () => ((await edge.call("GET /api/v1/stats")).json as { snapshots?: object }).snapshots;
  const seen = await Promise.all([stats(), stats(), stats()]);
  assert.equal([...seen, asked], [...Array.from({ length: 3 }, () => ({ archives: 3, bytes: 16 })), 1]);
  await save(served.store, "of b", b);
  assert.equal([await stats(), asked], [{ archives: 3, bytes: 16 }, 1]);
  await clock.pass(61_000);
  assert.equal(await stats(), { archives: 3, bytes: 16 }, "it is asked for, and not waited for");
  await eventually(async () => JSON.stringify(await stats()) === JSON.stringify({ archives: 4, bytes: 20 }));
  failure = new Error("the disk is gone");
  await clock.pass(61_000);
  await stats();
  await eventually(async () => (await stats()) === undefined);
});

test("stats tell what they may take, where anything limits that", async ({ served }) => {
  for (const [limits, said] of [
    [{}, undefined],
    [{ tenantBytes: 5000 }, { tenantBytes: 5000 }],
    [
      { tenantBytes: 5000, workloadBytes: 90_000 },
      { tenantBytes: 5000, workloadBytes: 90_000 },
    ],
  ] as const) {
    const edge = testEdge({ store: served.store, clock: systemClock, most: { history: 0, replaced: 3, ...limits } });
    const { json } = await edge.call("GET /api/v1/stats");
    assert.equal((json as { snapshotLimits?: object }).snapshotLimits, said);
  }
});

test("nothing is rolled back or given to a tenant who has a claim", async (context) => {
  const { edge, served } = context;
  const { cluster } = edge;
  await saveThree(context);
  for (const phase of ["Pending", "Active", "Releasing", "ReleaseFailed", "Error"] as const) {
    cluster.addClaim({ ...a, status: { phase } });
    const answer = await edge.call(`POST ${OF_A}/rollback`, { body: { version: short("first") } });
    assert.is(answer.status, 409, phase);
    assert.match(answer.error ?? "", 'tenant "a" has a claim on workload "app": release it with POST');
    cluster.removeClaim("claim-a-app");
  }
  // What the watch has not seen counts.
  cluster.lag = true;
  cluster.addClaim({ ...b, status: { phase: "Active" } });
  assert.is((await edge.call(`POST ${OF_A}/copy`, { body: { tenantId: "b" } })).status, 409);
  cluster.lag = false;
  assert.equal([await load(served.store, a), await load(served.store, b)], ["third", undefined]);
  cluster.addClaim({ ...a, status: { phase: "Released" } });
  assert.is((await edge.call(`POST ${OF_A}/rollback`, { body: { version: short("first") } })).status, 200);
});

test("a copy is the other tenant's own, and an Event names both", async (context) => {
  const { edge, served } = context;
  await saveThree(context);
  // Of the source the files may be in use.
  edge.cluster.addClaim({ ...a, status: { phase: "Active" } });
  const copy = (body: object) => edge.call(`POST ${OF_A}/copy`, { body });
  const answer = await copy({ tenantId: "b", version: short("second") });
  assert.is(answer.status, 201, answer.text);
  const { tenantId, path, newest } = answer.json as Record<string, unknown>;
  assert.equal([tenantId, path, newest], ["b", "/snapshots/b/app.tar.gz", true]);
  assert.equal([await load(served.store, b), await load(served.store, a)], ["second", "third"]);
  const [event, ...others] = edge.recorded;
  assert.equal([event?.reason, event?.type, others.length], ["SnapshotCopied", "Normal", 0]);
  assert.match(event?.message ?? "", /of tenant "a" .* were copied to tenant "b" for workload "app"/);
  assert.match(JSON.stringify(edge.log), "snapshot copied");

  const refused = await copy({ tenantId: "b" });
  assert.is(refused.status, 409);
  assert.match(refused.error ?? "", 'tenant "b" has a snapshot of workload "app": name it in replaces');
  assert.is((await copy({ tenantId: "b", replaces: short("third") })).status, 409);
  assert.is((await copy({ tenantId: "b", replaces: short("second") })).status, 201);
  assert.equal(await contents(context, "/api/v1/tenants/b/snapshots/app"), [
    ["third", true, undefined],
    ["second", false, "replaced"],
  ]);
  await served.store.delete(a, { signal: new AbortController().signal, timeoutMs: 60_000 });
  assert.is(await load(served.store, b), "third");
});

test("a copy needs a workload, an archive and another key", async (context) => {
  const { edge } = context;
  const copy = (body: object) => edge.call(`POST ${OF_A}/copy`, { body });
  assert.is((await copy({ tenantId: "b" })).status, 404, "there is none");
  await saveThree(context);
  assert.is((await copy({ tenantId: "b", workload: "none" })).status, 404);
  assert.is((await copy({ tenantId: "b", version: "0".repeat(16) })).status, 404);
  for (const [body, status] of [
    [{ tenantId: "a" }, 409],
    [{ tenantId: "a", workload: "app" }, 409],
    [{ tenantId: "-" }, 400],
    [{ tenantId: "b", workload: "App" }, 400],
    [{}, 400],
  ] as const) {
    assert.is((await copy(body)).status, status, JSON.stringify(body));
  }
  edge.cluster.addWorkload("other");
  assert.is((await copy({ tenantId: "a", workload: "other" })).status, 201);
  assert.is(edge.recorded.length, 1);
});

test("the newest archive and each version can be downloaded as it was saved", async (context) => {
  const { edge } = context;
  const download = (query = "", method = "GET") => edge.call(`${method} ${OF_A}/archive${query}`);
  assert.is((await download()).status, 404);
  await saveThree(context);
  for (const [query, content] of [
    ["", "third"],
    [`?version=${short("first")}`, "first"],
    [`?version=${digest("second")}`, "second"],
  ] as const) {
    const { status, headers, text } = await download(query);
    assert.equal([status, text], [200, content]);
    assert.equal(
      ["content-type", "content-length", "etag", "content-disposition"].map((name) => headers.get(name)),
      [...["application/gzip", String(content.length), `"${digest(content)}"`], 'attachment; filename="a-app.tar.gz"'],
    );
  }
  const known = (tags: string) => edge.call(`GET ${OF_A}/archive`, { headers: { "if-none-match": tags } });
  for (const tags of [`"${digest("third")}"`, `"other", W/"${digest("third")}"`, "*"]) {
    const { status, headers, text } = await known(tags);
    assert.equal([status, headers.get("etag"), text], [304, `"${digest("third")}"`, ""], tags);
  }
  assert.is((await known(`"${digest("second")}"`)).status, 200);
  const head = await download("", "HEAD");
  assert.equal([head.status, head.headers.get("content-length"), head.text], [200, "5", ""]);
  assert.is((await download(`?version=${"0".repeat(16)}`)).status, 404);
  assert.is((await download("?version=the+first")).status, 400);
});

testOfVolume(
  "a download that is not what was saved has no last byte, though the store finds out after that",
  async (context) => {
    await save(context.served.store, "third", a);
    writeFileSync(join(context.volume.path, "a", "app.tar.gz"), "thirD");
    const { body, headers } = await context.edge.handler(new Request(`http://edge.test${OF_A}/archive`), {});
    const reader = body?.getReader();
    let bytes = 0;
    const error = await (async () => {
      for (let read = await reader?.read(); read?.done === false; read = await reader?.read())
        bytes += read.value.length;
    })().catch((failure: unknown) => failure);
    assert.instance(error, Error);
    assert.is(headers.get("content-length"), "5");
    assert.ok(bytes < 5, String(bytes));
  },
);

test("a download that is not what was saved ends before its end", async (context) => {
  const { served } = context;
  await saveThree(context);
  let isClosed = false;
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("thi");
    throw new ArchiveError("Corrupt", "its SHA-256 is not the one that was recorded");
  }
  const store: SnapshotStore = {
    ...served.store,
    async open(...given) {
      const opened = await served.store.open(...given);
      opened?.close();
      const close = (): void => {
        isClosed = true;
      };
      return opened && { ...opened, content: broken(), close };
    },
  };
  const edge = testEdge({ store, clock: systemClock });
  edge.cluster.addSnapshots();
  const gone = await edge.handler(new Request(`http://edge.test${OF_A}/archive`), {});
  await gone.body?.cancel();
  assert.ok(isClosed, "who does not read gives it up");
  const error = await edge.call(`GET ${OF_A}/archive`).then(
    ({ text }) => text,
    (failure: unknown) => failure,
  );
  assert.instance(error, Error);
});

test.run();
