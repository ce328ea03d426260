import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, isAlreadyExists, isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { configMaps, leases, namespaces, pods } from "../../../crds/client/built-in-resources.ts";
import type { ConfigMap } from "../../../crds/kubernetes.ts";
import { type ControlPlaneUnderTest, namespace, sharedPlane } from "./control-plane-under-test.ts";

const test = suite("calls");
let plane: ControlPlaneUnderTest;

test.before(async () => {
  plane = await sharedPlane();
});

function configMap(name: string, data: Record<string, string> = {}): ConfigMap {
  return { metadata: { name, namespace }, data };
}

async function failure(promise: Promise<unknown>): Promise<ApiError> {
  const error = await promise.catch((cause: unknown) => cause);
  if (error instanceof ApiError) return error;
  throw new Error(`expected an ApiError, not ${error}`);
}

test("create, get, replace, patch and delete do what they say, and managedFields never arrive", async () => {
  const { client } = plane;
  const ref = { namespace, name: "life" };
  const created = await client.create(configMaps, configMap("life", { a: "1" }));
  assert.equal((await client.get(configMaps, ref)).metadata.uid, created.metadata.uid);
  const replaced = await client.replace(configMaps, { ...created, data: { a: "2" } });
  assert.equal(replaced.data, { a: "2" });
  const patched = await client.patch(configMaps, ref, { type: "merge", body: { data: { b: "3" } } });
  assert.equal(patched.data, { a: "2", b: "3" });
  const jsonPatch = [{ op: "remove", path: "/data/a" }];
  const again = await client.patch(configMaps, ref, { type: "json", body: jsonPatch });
  assert.equal(again.data, { b: "3" });
  for (const answer of [created, replaced, patched, again]) assert.is("managedFields" in answer.metadata, false);
  assert.is(await client.delete(configMaps, ref), undefined);
  assert.ok(isNotFound(await failure(client.get(configMaps, ref))));
});

test("create with a generated name, and as a dry run that leaves nothing", async () => {
  const { client } = plane;
  const { metadata } = await client.create(configMaps, { metadata: { name: "", generateName: "made-", namespace } });
  assert.match(metadata.name, /^made-.+/);
  await client.create(configMaps, configMap("dry"), { dryRun: true });
  assert.ok(isNotFound(await failure(client.get(configMaps, { namespace, name: "dry" }))));
});

test("a stale resourceVersion is a conflict for replace, merge patch and delete, and changes nothing", async () => {
  const { client } = plane;
  const ref = { namespace, name: "stale" };
  const first = await client.create(configMaps, configMap("stale", { a: "1" }));
  const { resourceVersion } = first.metadata;
  const second = await client.replace(configMaps, { ...first, data: { a: "2" } });
  const body = { metadata: { resourceVersion }, data: { a: "3" } };
  const calls: (() => Promise<unknown>)[] = [
    () => client.replace(configMaps, { ...first, data: { a: "3" } }),
    () => client.patch(configMaps, ref, { type: "merge", body }),
    () => client.delete(configMaps, ref, { resourceVersion }),
  ];
  for (const call of calls) assert.ok(isConflict(await failure(call())));
  assert.equal((await client.get(configMaps, ref)).metadata.resourceVersion, second.metadata.resourceVersion);
});

test("delete with a uid leaves a successor of the name alone", async () => {
  const { client } = plane;
  const ref = { namespace, name: "successor" };
  const first = await client.create(configMaps, configMap("successor"));
  await client.delete(configMaps, ref, { uid: first.metadata.uid });
  const second = await client.create(configMaps, configMap("successor"));
  assert.ok(isConflict(await failure(client.delete(configMaps, ref, { uid: first.metadata.uid }))));
  assert.is((await client.get(configMaps, ref)).metadata.uid, second.metadata.uid);
});

test("delete resolves with the object while a finalizer or its grace period keeps it", async () => {
  const { client } = plane;
  const ref = { namespace, name: "kept" };
  await client.create(configMaps, { metadata: { ...ref, finalizers: ["tenancy.dev/test"] } });
  const kept = await client.delete(configMaps, ref);
  assert.ok(kept?.metadata.deletionTimestamp);
  await client.patch(configMaps, ref, { type: "merge", body: { metadata: { finalizers: null } } });
  assert.ok(isNotFound(await failure(client.get(configMaps, ref))));

  const container = { name: "main", image: "none" };
  const spec = { containers: [container], nodeName: "nowhere", automountServiceAccountToken: false };
  await client.create(pods, { metadata: ref, spec });
  assert.is((await client.delete(pods, ref, { gracePeriodSeconds: 20 }))?.metadata.deletionGracePeriodSeconds, 20);
  assert.is(await client.delete(pods, ref, { gracePeriodSeconds: 0 }), undefined);
  assert.ok(isNotFound(await failure(client.get(pods, ref))));
});

test("apply conflicts over a field that another manager owns, names both, and takes it over by force", async () => {
  const { client } = plane;
  await client.apply(configMaps, configMap("owned", { a: "1", b: "1" }), { fieldManager: "one" });
  const theirs = configMap("owned", { a: "2" });
  const conflict = await failure(client.apply(configMaps, theirs, { fieldManager: "two" }));
  assert.ok(isConflict(conflict));
  assert.match(conflict.message, /"one".*\.data\.a/);
  assert.is(conflict.statusDetails?.causes?.[0]?.field, ".data.a");
  const forced = await client.apply(configMaps, theirs, { fieldManager: "two", force: true });
  assert.equal(forced.data, { a: "2", b: "1" });
  const dropped = await client.apply(configMaps, configMap("owned"), { fieldManager: "one" });
  assert.equal(dropped.data, { a: "2" }, "what the other manager no longer applies goes");
});

test("refusals name what they are about", async () => {
  const { client } = plane;
  const missing = await failure(client.get(configMaps, { namespace, name: "missing" }));
  assert.equal([missing.status, missing.reason], [404, "NotFound"]);
  assert.is(missing.message, 'configmaps "missing" not found');
  await client.create(configMaps, configMap("taken"));
  const taken = await failure(client.create(configMaps, configMap("taken")));
  assert.ok(isAlreadyExists(taken));
  assert.is(taken.message, 'configmaps "taken" already exists');
  const invalid = await failure(client.create(configMaps, configMap("Not_A_Name")));
  assert.equal([invalid.status, invalid.reason], [422, "Invalid"]);
  assert.match(invalid.message, 'ConfigMap "Not_A_Name" is invalid: metadata.name');
  assert.is(invalid.statusDetails?.causes?.[0]?.field, "metadata.name");
  const nowhere = await failure(client.create(configMaps, { metadata: { name: "x", namespace: "nowhere" } }));
  assert.is(nowhere.message, 'namespaces "nowhere" not found');
  const path = "/apis/no.such.group/v1";
  assert.match((await failure(client.request({ method: "GET", path }))).message, `GET ${path} was answered with 404`);
});

test("list gives more objects than a page holds, page by page, by selectors and across namespaces", async () => {
  const { client } = plane;
  const other = "client-pages";
  await client.create(namespaces, { metadata: { name: other } });
  let next = 0;
  async function create(): Promise<void> {
    for (let index = next++; index < 121; index = next++) {
      const labels = { part: String(index % 3) };
      const name = `page-${String(index).padStart(4, "0")}`;
      await client.create(configMaps, { metadata: { name, namespace: other, labels } });
    }
  }
  await Promise.all(Array.from({ length: 16 }, create));
  const sizes: number[] = [];
  const names = new Set<string>();
  let token: string | undefined;
  do {
    const page = await client.list(configMaps, { namespace: other, limit: 50, continue: token });
    sizes.push(page.items.length);
    for (const { metadata } of page.items) names.add(metadata.name);
    token = page.metadata.continue;
  } while (token);
  assert.equal(sizes, [50, 50, 21]);
  assert.is(names.size, 121);
  const third = await client.list(configMaps, { namespace: other, labelSelector: "part in (1),part!=2" });
  assert.is(third.items.length, 40);
  const one = await client.list(configMaps, { fieldSelector: `metadata.name=page-0007,metadata.namespace=${other}` });
  assert.equal(
    one.items.map(({ metadata }) => metadata.name),
    ["page-0007"],
  );
  assert.equal((await client.list(leases, { namespace: other })).items, []);
});

test("request reaches discovery, the version and the health checks", async () => {
  const { client, cluster } = plane;
  const version = JSON.parse((await client.request({ method: "GET", path: "/version" })).body.toString());
  assert.is(version.gitVersion, cluster.version);
  assert.is((await client.request({ method: "GET", path: "/readyz" })).body.toString(), "ok");
});

test.run();
