// @runtimes bun node deno
// @limit 300
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import type { ContainerState, PodStatus } from "../../../crds/kubernetes.ts";
import { type SnapshotStore, StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { DIGEST, type SnapshotsFolder, snapshotsFolder } from "./snapshots-folder.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("snapshot routes");
const ALL = "GET /api/v1/snapshots";
let volume: SnapshotsFolder;
let folder: string;
let served: ServedStore;
/** Calls of the store. */
let calls: string[];
let edge: TestEdge;

test.before.each(async () => {
  volume = snapshotsFolder();
  folder = volume.path;
  served = await serveStore(folder);
  calls = [];
  edge = edgeOver(served.store);
});
test.after.each(async () => {
  await served.close();
  volume.remove();
});

function edgeOver(store: SnapshotStore): TestEdge {
  function noted<T extends unknown[], R>(name: string, call: (...given: T) => R): (...given: T) => R {
    return (...given) => {
      calls.push(name);
      return call(...given);
    };
  }
  const noting = {
    ...store,
    ...{ look: noted("look", store.look), list: noted("list", store.list), delete: noted("delete", store.delete) },
  };
  const made = testEdge({ store: noting, clock: systemClock });
  made.cluster.addSnapshots();
  return made;
}

function record(tenantId: string, workloadRef: string) {
  return {
    tenantId,
    workloadRef,
    path: `/snapshots/${tenantId}/${workloadRef}.tar.gz`,
    sizeBytes: 10,
    sha256: DIGEST,
    createdAt: "2026-11-21T12:00:00.000Z",
  };
}

test("snapshots of one tenant are listed alone", async () => {
  for (const tenant of ["a", "A", "b"]) volume.save(tenant, "app");
  assert.equal((await edge.call(`${ALL}?tenant=a`)).json, [record("a", "app")]);
  assert.equal((await edge.call(`${ALL}?tenant=nobody`)).json, []);
  assert.is((await edge.call(`${ALL}?tenant=-a`)).status, 400);
});

test("a key of some workloads lists their snapshots only, and no page ends with the name of another", async () => {
  for (const workload of ["a-secret", "app", "m-secret", "web-1", "web-2", "z-secret"]) volume.save("a", workload);
  volume.keep("a", "web-1");
  const { signal: ended } = new AbortController();
  const actor = { kind: "key", id: "w", ref: "w-1", role: "tenant", tenants: ["a"], ended } as const;
  const keys = { actorOf: () => ({ ...actor, workloads: ["app", "web-*"] }), actorWithRef: () => undefined };
  const of = testEdge({ store: served.store, clock: systemClock, apiKey: "root", keys });
  of.cluster.addSnapshots();
  const call = async (query: string) => {
    const answer = await of.call(`${ALL}?tenant=a${query}`, { headers: { authorization: "Bearer tk" } });
    assert.is(answer.status, 200, answer.text);
    const names = (answer.json as { workloadRef: string }[]).map(({ workloadRef }) => workloadRef);
    return [names, answer.headers.get("x-tenancy-next")];
  };
  assert.equal(await call(""), [["app", "web-1", "web-2"], null]);
  assert.equal(await call("&limit=1"), [["app"], "a/app"]);
  assert.equal(await call("&limit=1&after=a%2Fapp&versions=true"), [["web-1", "web-1"], "a/web-1"]);
  assert.equal(await call("&limit=1&after=a%2Fweb-1"), [["web-2"], null]);
  assert.equal(await call("&after=a%2Fweb-2"), [[], null]);
});

test("a cluster without a snapshots volume has no snapshots, and asks no store to say so", async () => {
  edge = testEdge();
  edge.cluster.addWorkload("app");
  assert.equal((await edge.call(ALL)).json, []);
  assert.equal((await edge.call("GET /api/v1/workloads/app/snapshots")).json, []);
  const answer = await edge.call("DELETE /api/v1/tenants/a/snapshots/app");
  assert.is(answer.status, 404);
  assert.is(answer.error, 'tenant "a" has no snapshot of workload "app": /snapshots/a/app.tar.gz does not exist');
});

test("object storage has snapshots without a volume", async () => {
  edge = testEdge({ store: served.store, storeKind: "s3", clock: systemClock });
  volume.save("a", "app");
  assert.equal((await edge.call(ALL)).json, [record("a", "app")]);
  assert.is((await edge.call("DELETE /api/v1/tenants/a/snapshots/app")).status, 200);
  assert.equal((await edge.call(ALL)).json, []);
});

test("snapshots are listed by tenant, then workload, also of a workload that is gone", async () => {
  edge.cluster.addWorkload("app");
  for (const [tenant, workload] of [
    ["b", "app"],
    ["a", "old"],
    ["a", "app"],
    ["B", "app"],
  ] as const)
    volume.save(tenant, workload);
  const answer = await edge.call(ALL);
  assert.is(answer.status, 200, answer.text);
  assert.equal(answer.json, [record("B", "app"), record("a", "app"), record("a", "old"), record("b", "app")]);
  const ofApp = await edge.call("GET /api/v1/workloads/app/snapshots");
  assert.equal(ofApp.json, [record("B", "app"), record("a", "app"), record("b", "app")]);
  const gone = await edge.call("GET /api/v1/workloads/old/snapshots");
  assert.is(gone.status, 404);
  assert.equal(calls, ["list", "list"]);
});

test("older versions are listed where they are asked for, after the newest, and go with it", async () => {
  edge.cluster.addWorkload("app");
  for (const workload of ["app", "old"]) volume.save("a", workload);
  volume.keep("a", "app");
  const version = DIGEST.slice(0, 16);
  const path = `/snapshots/a/.versions/app/${version}.tar.gz`;
  // What recorded no reason counts as replaced.
  const older = { ...record("a", "app"), path, version, kept: "replaced" };
  assert.equal((await edge.call(ALL)).json, [record("a", "app"), record("a", "old")]);
  assert.equal((await edge.call(`${ALL}?versions=true`)).json, [record("a", "app"), older, record("a", "old")]);
  const ofApp = await edge.call("GET /api/v1/workloads/app/snapshots?versions=true");
  assert.equal(ofApp.json, [record("a", "app"), older]);
  assert.is((await edge.call(`${ALL}?versions=all`)).status, 400);
  assert.is((await edge.call("DELETE /api/v1/tenants/a/snapshots/app")).status, 200);
  assert.equal((await edge.call(`${ALL}?versions=true`)).json, [record("a", "old")]);
  volume.keep("a", "app");
  assert.is((await edge.call("DELETE /api/v1/tenants/a/snapshots/app")).status, 200, "without the newest too");
  assert.equal((await edge.call(`${ALL}?versions=true`)).json, [record("a", "old")]);
});

test("a snapshot is erased where its newest version is the one that was looked at", async () => {
  volume.save("a", "app");
  volume.keep("a", "app");
  const erase = (newest: string) => edge.call(`DELETE /api/v1/tenants/a/snapshots/app?newest=${newest}`);
  const other = await erase("cd".repeat(32));
  assert.is(other.status, 409);
  assert.is(
    other.error,
    'the newest saved version of workload "app" of tenant "a" is no longer cdcdcdcdcdcdcdcd: list the versions again',
  );
  assert.is(((await edge.call(`${ALL}?versions=true`)).json as object[]).length, 2);
  assert.is((await erase("none")).status, 400);
  assert.is((await erase(DIGEST)).status, 200);
  assert.equal((await edge.call(`${ALL}?versions=true`)).json, []);
  assert.is((await erase(DIGEST.slice(0, 16))).status, 409, "there is none");
});

test("an archive that has lost what was recorded beside it is listed, and can be erased", async () => {
  volume.save("a", "app");
  for (const name of readdirSync(join(folder, "a"))) if (name.endsWith(".json")) rmSync(join(folder, "a", name));
  const { json } = await edge.call(ALL);
  const [{ createdAt, ...rest } = { createdAt: "" }] = json as { createdAt: string }[];
  const { sha256: _, createdAt: __, ...known } = record("a", "app");
  assert.equal(rest, known);
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.is((await edge.call("DELETE /api/v1/tenants/a/snapshots/app")).status, 200);
  assert.equal((await edge.call(ALL)).json, []);
});

test("listings at once are one request, and one that comes after it began is another", async () => {
  volume.save("a", "app");
  const paths = [ALL, `${ALL}?versions=false&limit=500`];
  const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => edge.call(paths[index % 2] ?? "")));
  for (const { json } of answers) assert.equal(json, [record("a", "app")]);
  assert.equal(calls, ["list"]);

  const first = edge.call(ALL);
  while (calls.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  volume.save("b", "app");
  const second = await edge.call(ALL);
  assert.equal(second.json, [record("a", "app"), record("b", "app")]);
  assert.is((await first).status, 200);
  assert.is(calls.length, 3);
});

test("a client that goes leaves the listing to those who share it", async () => {
  volume.save("a", "app");
  const gone = new AbortController();
  const left = edge.call(ALL, { signal: gone.signal });
  const stays = edge.call(ALL);
  gone.abort();
  assert.is((await left).status, 499);
  assert.equal((await stays).json, [record("a", "app")]);
});

test("snapshots are listed in pages, of which each is one request, and none is missing", async () => {
  volume.save("a", "app");
  volume.keep("a", "app");
  for (let index = 0; index < 1100; index += 1) volume.save(`t${index}`, "app");
  const seen: string[] = [];
  const sizes: number[] = [];
  let next: string | null = "";
  while (next !== null) {
    const after: string = next === "" ? "" : `&after=${encodeURIComponent(next)}`;
    const answer = await edge.call(`${ALL}?versions=true${after}`);
    assert.is(answer.status, 200, answer.text);
    const rows = answer.json as { tenantId: string }[];
    seen.push(...rows.map(({ tenantId }) => tenantId));
    sizes.push(rows.length);
    next = answer.headers.get("x-tenancy-next");
  }
  // The older version comes with its snapshot.
  assert.equal(sizes, [501, 500, 101]);
  assert.equal(calls, ["list", "list", "list"]);
  assert.is(seen.length, 1102);
  assert.equal(seen, [...seen].sort());
  const some = await edge.call(`${ALL}?limit=2&after=t1098/app`);
  assert.equal(
    (some.json as { tenantId: string }[]).map(({ tenantId }) => tenantId),
    ["t1099", "t11"],
  );
  assert.is(some.headers.get("x-tenancy-next"), "t11/app");
  for (const query of ["limit=0", "limit=1001", "limit=x", "after=a", "after=a/b/c", "after=-a/b", "after=a/B"])
    assert.is((await edge.call(`${ALL}?${query}`)).status, 400, query);
});

test("of one tenant only its folder is read, and of a workload what is behind the page comes with the next", async () => {
  edge.cluster.addWorkload("app");
  for (const tenant of ["a", "b", "c"]) for (const workload of ["app", "old"]) volume.save(tenant, workload);
  const asked: unknown[] = [];
  edge = edgeOver({
    ...served.store,
    list(filter, call) {
      asked.push(filter);
      return served.store.list(filter, call);
    },
  });
  edge.cluster.addWorkload("app");
  await edge.call(`${ALL}?tenant=b`);
  assert.equal(asked, [{ tenantId: "b", versions: false, limit: 500, after: undefined }]);
  const first = await edge.call("GET /api/v1/workloads/app/snapshots?limit=2");
  assert.equal(first.json, [record("a", "app"), record("b", "app")]);
  const next = encodeURIComponent(first.headers.get("x-tenancy-next") ?? "");
  const second = await edge.call(`GET /api/v1/workloads/app/snapshots?limit=2&after=${next}`);
  assert.equal([second.json, second.headers.get("x-tenancy-next")], [[record("c", "app")], null]);
});

test("a helper pod that does not run is a 503 that says what is missing", async () => {
  const waiting = (state: ContainerState): PodStatus => ({
    phase: "Pending",
    containerStatuses: [{ name: "snapshots", ready: false, restartCount: 0, image: "b", state }],
  });
  const cases: [PodStatus | undefined, RegExp][] = [
    [
      undefined,
      /its helper pod tenancy-snapshots does not exist \(the operator creates it: check that one is running\); see/,
    ],
    [{ phase: "Pending" }, /tenancy-snapshots is Pending and not running; see kubectl -n tenancy describe/],
    [
      {
        phase: "Pending",
        conditions: [{ type: "PodScheduled", status: "False", message: "no volume for its claim" }],
      },
      /is Pending and not running \(no volume for its claim\)/,
    ],
    [waiting({ waiting: { reason: "ImagePullBackOff" } }), /is Pending and not running \(ImagePullBackOff\)/],
    [{ phase: "Running" }, /is Running and not running/],
  ];
  for (const [status, message] of cases) {
    edge.cluster.addSnapshots(status);
    if (status === undefined) edge.cluster.remove(pods, SNAPSHOTS_NAME);
    for (const target of [ALL, "DELETE /api/v1/tenants/a/snapshots/app"]) {
      const answer = await edge.call(target);
      assert.is(answer.status, 503, answer.text);
      assert.match(answer.error ?? "", message);
      assert.is(answer.headers.get("retry-after"), "1");
    }
  }
  edge.cluster.addSnapshots({ phase: "Pending" });
  const volumeClaim = edge.cluster.read(persistentVolumeClaims, SNAPSHOTS_NAME);
  edge.cluster.add(persistentVolumeClaims, { ...volumeClaim, status: { phase: "Pending" } });
  assert.match((await edge.call(ALL)).error ?? "", "and its volume claim tenancy-snapshots is Pending;");
  assert.equal(calls, []);
});

test("failures of the store and of the cluster are a status with words that help", async () => {
  volume.save("a", "app");
  const failing = (error: Error) => {
    const fail = () => Promise.reject(error);
    return edgeOver({ ...served.store, list: fail, look: fail, delete: fail });
  };
  const later = new StoreError("it starts", { isTransient: true });
  const broken = new StoreError("the disk is gone", { isTransient: false });
  for (const [error, message, retryAfter] of [
    [new NetworkError("refused", { requestWasSent: false }), "the snapshots volume cannot be reached", "1"],
    [later, "the snapshots volume cannot be reached now; try again", "1"],
    [broken, "the snapshots volume failed; see this server's log", null],
  ] as const) {
    edge = failing(error);
    for (const target of [ALL, "DELETE /api/v1/tenants/a/snapshots/app"]) {
      const answer = await edge.call(target);
      assert.is(answer.status, 503, answer.text);
      assert.match(answer.error ?? "", message);
      assert.is(answer.headers.get("retry-after"), retryAfter);
    }
    assert.match(JSON.stringify(edge.log), error.message);
  }
  edge = failing(new Error("something new"));
  assert.is((await edge.call(ALL)).status, 500);
  edge.cluster.onNext("get", new NetworkError("refused", { requestWasSent: false }));
  assert.is((await edge.call(ALL)).status, 503);
});

test("a volume that is gone is an error, and not an empty list", async () => {
  volume.save("a", "app");
  rmSync(folder, { recursive: true });
  for (const target of [ALL, "DELETE /api/v1/tenants/a/snapshots/app"]) {
    const answer = await edge.call(target);
    assert.is(answer.status, 503, answer.text);
    assert.match(answer.error ?? "", /^the snapshots volume (fails|cannot be reached)/);
  }
});

test("an erased snapshot is gone with all that belongs to it, and no other is", async () => {
  for (const workload of ["app", "app.tar.gz", "app.tar.gz.tar.gz", "app.x"]) volume.save("a", workload);
  volume.save("b", "app");
  const partials = ["app.tar.gz.0badcafe.partial", "app.tar.gz.0123456789abcdef.json.0badcafe.partial"];
  const others = ["app.tar.gz.tar.gz.0badcafe.partial", "app.x.tar.gz.0badcafe.partial"];
  for (const name of [...partials, ...others]) writeFileSync(join(folder, "a", name), "files");
  const { status, json } = await edge.call("DELETE /api/v1/tenants/a/snapshots/app");
  assert.is(status, 200);
  assert.equal(json, { status: "deleted", tenantId: "a", workload: "app" });
  const left = readdirSync(join(folder, "a"));
  assert.equal(
    left.filter((name) => /^app\.tar\.gz(\.[^.]{16}\.json|\.0badcafe\.partial|)$/.test(name)),
    [],
  );
  for (const name of others) assert.ok(left.includes(name), name);
  assert.equal(
    ((await edge.call(ALL)).json as { path: string }[]).map(({ path }) => path),
    ["a/app.tar.gz", "a/app.tar.gz.tar.gz", "a/app.x", "b/app"].map((name) => `/snapshots/${name}.tar.gz`),
  );
  assert.is((await edge.call("DELETE /api/v1/tenants/a/snapshots/app")).status, 404);
  await edge.call("DELETE /api/v1/tenants/b/snapshots/app");
  assert.not.ok(existsSync(join(folder, "b")));
});

test("a snapshot cannot be erased while a release writes it, and can while the claim is Active", async () => {
  const { cluster } = edge;
  const erase = () => edge.call("DELETE /api/v1/tenants/a/snapshots/app");
  volume.save("a", "app");
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: { phase: "Releasing" }, deleting: true });
  const releasing = await erase();
  assert.is(releasing.status, 409);
  assert.match(releasing.error ?? "", 'the release of workload "app" by tenant "a" is in progress');
  assert.match(
    releasing.error ?? "",
    "delete again when it has finished, which POST /api/v1/tenants/a/release?wait=true",
  );
  cluster.setStatus("claim-a-app", { phase: "ReleaseFailed" });
  const failed = await erase();
  assert.is(failed.status, 409);
  assert.match(failed.error ?? "", "kubectl -n tenancy annotate tenancyclaim claim-a-app tenancy.dev/discard=true");
  // The operator has not come to it yet, and the watch neither.
  cluster.setStatus("claim-a-app", { phase: "Active" });
  assert.is((await erase()).status, 409);
  assert.equal(calls, []);
  cluster.setStatus("claim-a-app", { phase: "Released" });
  assert.is((await erase()).status, 200);

  cluster.removeClaim("claim-a-app");
  volume.save("a", "app");
  cluster.lag = true;
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: { phase: "Active" }, deleting: true });
  assert.is((await erase()).status, 409, "what the watch has not seen counts");
  cluster.lag = false;
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: { phase: "Active" } });
  assert.is((await erase()).status, 200);
  volume.save("a", "app");
  // Another pair's claim that has the same name.
  cluster.addClaim({ tenantId: "a-app", workloadRef: "x", name: "claim-a-app", status: { phase: "Releasing" } });
  assert.is((await erase()).status, 200);
});

test("ids that cannot be are refused before any call", async () => {
  for (const [path, status] of [
    ["-a/snapshots/app", 400],
    ["a/snapshots/App", 400],
    ["a%2Fb/snapshots/app", 400],
    ["a/snapshots/b%2Fc", 400],
    ["a%0A/snapshots/app", 400],
    ["a/snapshots/%", 400],
    ["a/snapshots/..", 404],
    ["a/snapshots/", 404],
    ["a/snapshots", 404],
  ] as const) {
    const answer = await edge.call(`DELETE /api/v1/tenants/${path}`);
    assert.is(answer.status, status, `${path} ${answer.text}`);
  }
  assert.equal(edge.cluster.calls, []);
  assert.equal(calls, []);
});

test.run();
