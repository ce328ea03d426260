import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { WebSocket } from "ws";
import { ApiError } from "../../../crds/client/api-error.ts";
import { namespaces, secrets } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import type { Role } from "../../../edge/access/actor.ts";
import { type KeyStore, watchKeys } from "../../../edge/access/key-store.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { loadConfig } from "../../../edge/config.ts";
import { startEdge } from "../../../edge/edge.ts";
import { serveNode } from "../../../edge/serve/node.ts";
import { eventually } from "../../eventually.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { KEY, type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("keys with a role on a real API server");
const KEYS = "tenancy-keys";
let tenancy: Tenancy;
let first: RestEdge;
let second: RestEdge;
/** As an edge has them. */
let keys: KeyStore;
const stop = new AbortController();
const texts: string[] = [];

test.before(async () => {
  tenancy = await startTenancy("rest-keys", { nodes: false });
  const { client, cluster } = tenancy;
  await client.create(namespaces, { metadata: { name: KEYS } });
  const env = { KUBECONFIG: cluster.kubeconfigPath, TENANCY_KEYS_NAMESPACE: KEYS };
  first = await startRestEdge("bun", env);
  second = await startRestEdge("bun", env);
  keys = watchKeys({ client, namespace: KEYS, signal: stop.signal, log: silentLog, clock: systemClock });
  await eventually(() => keys.isKnown());
});

test.after(async () => {
  stop.abort();
  for (const edge of [first, second]) await edge?.stop();
  await tenancy?.stop();
});

async function create(body: object): Promise<ApiTypes["CreatedKey"]> {
  const { status, json, text } = await first.call("POST /api/v1/keys", { body });
  assert.is(status, 201, text);
  const created = json as ApiTypes["CreatedKey"];
  texts.push(created.key);
  return created;
}

async function listed(edge: RestEdge): Promise<string[]> {
  const { status, json, text } = await edge.call("GET /api/v1/keys");
  assert.is(status, 200, text);
  return (json as ApiTypes["Key"][]).map(({ id }) => id);
}

/** A Secret that a person writes for a key of their own. */
function written({ name, ...content }: { name?: string; role?: Role; hidden?: string } = {}) {
  const id = randomBytes(8).toString("hex");
  const secret = randomBytes(32);
  const sha256 = createHash("sha256").update(secret).digest("hex");
  const text = `tk_${id}_${secret.toString("base64url")}`;
  texts.push(text);
  const object: Secret = {
    metadata: { name: `key-${id}`, namespace: KEYS, labels: { "tenancy.dev/use": "key" } },
    type: "tenancy.dev/key",
    stringData: { "key.json": JSON.stringify({ name: name ?? "by hand", role: "reader", sha256, ...content }) },
  };
  return { id, text, object };
}

test("a key that one edge creates works on the others, and ends on them when it is deleted", async () => {
  const { id, key } = await create({ name: "a", role: "tenant", tenants: ["alice", "team-*"] });
  assert.ok((await listed(first)).includes(id));
  await eventually(async () => (await listed(second)).includes(id));
  await eventually(() => keys.actorOf(key) !== undefined);
  const actor = keys.actorOf(key);
  assert.equal([actor?.id, actor?.role, actor?.tenants], [id, "tenant", ["alice", "team-*"]]);
  assert.is(keys.actorOf(`${key.slice(0, -1)}${key.endsWith("A") ? "E" : "A"}`), undefined);

  const ask = async (edge: RestEdge, route: string, path: string) => (await edge.call(route, { path, key })).status;
  const closed: Promise<number>[] = [];
  for (const edge of [first, second]) {
    const tenant = "GET /api/v1/tenants/{id}";
    await eventually(async () => (await ask(edge, tenant, "/api/v1/tenants/team-1")) === 200);
    assert.is(await ask(edge, tenant, "/api/v1/tenants/bob"), 404);
    assert.is(await ask(edge, "GET /api/v1/tenants", "/api/v1/tenants"), 403);
    assert.is(await ask(edge, "GET /api/v1/keys", "/api/v1/keys"), 403);
    const socket = new WebSocket(`${edge.process.url.replace("http", "ws")}/ws`, {
      headers: { authorization: `Bearer ${key}` },
    });
    closed.push(once(socket, "close").then(([code]) => code));
    await once(socket, "open");
  }

  const path = `/api/v1/keys/${id}`;
  assert.is((await second.call("DELETE /api/v1/keys/{id}", { path })).status, 200);
  assert.not.ok((await listed(second)).includes(id));
  await eventually(async () => !(await listed(first)).includes(id));
  await eventually(() => actor?.ended.aborted === true);
  assert.is(keys.actorOf(key), undefined);
  assert.equal(await Promise.all(closed), [4401, 4401]);
  for (const edge of [first, second]) {
    assert.is(await ask(edge, "GET /api/v1/tenants/{id}", "/api/v1/tenants/alice"), 401);
    for (const route of ["GET /api/v1/keys/{id}", "DELETE /api/v1/keys/{id}"])
      assert.is((await edge.call(route, { path })).status, 404);
  }
});

test("a key reaches its workloads only, and has its rate on each edge", async () => {
  const limits = { tenants: ["alice"], workloads: ["web-*"], requestsPerSecond: 2 };
  const { key, id, ...rest } = await create({ name: "some", role: "tenant", ...limits });
  const { createdAt: _, ...shown } = rest;
  assert.equal(shown, { name: "some", role: "tenant", ...limits });
  await eventually(() => keys.actorOf(key) !== undefined);
  const ask = async (edge: RestEdge, path: string) =>
    (
      await edge.call("GET /api/v1/tenants/{id}/claims/{workload}", {
        path: `/api/v1/tenants/alice/claims/${path}`,
        key,
      })
    ).json as { error: string };
  for (const edge of [first, second]) {
    await eventually(async () => (await listed(edge)).includes(id));
    const other = 'workload "other" does not exist for this key, which reaches web-* only';
    await eventually(async () => (await ask(edge, "other")).error === other);
    // How many pass depends on the time that they take.
    await eventually(async () => {
      const answers = await Promise.all(Array.from({ length: 20 }, () => ask(edge, "web-1")));
      return answers.some(({ error }) => error.includes("has used up its 2 requests a second"));
    });
  }
});

test("a Secret that a person applies is a key, and a change of it ends what the old one has opened", async () => {
  const { id, text, object } = written({ role: "reader" });
  await tenancy.client.create(secrets, object);
  for (const edge of [first, second]) await eventually(async () => (await listed(edge)).includes(id));
  await eventually(() => keys.actorOf(text) !== undefined);
  const reader = keys.actorOf(text);
  const { json } = await second.call("GET /api/v1/keys/{id}", { path: `/api/v1/keys/${id}` });
  const { createdAt, ...shown } = json as ApiTypes["Key"];
  assert.equal(shown, { id, name: "by hand", role: "reader" });
  assert.ok(Date.parse(createdAt) > 0);

  const { role: _, ...content } = JSON.parse(object.stringData?.["key.json"] ?? "");
  const stringData = { "key.json": JSON.stringify({ ...content, role: "platform" }) };
  await tenancy.client.patch(secrets, object.metadata, { type: "merge", body: { stringData } });
  await eventually(() => reader?.ended.aborted === true);
  assert.is(keys.actorOf(text)?.role, "platform");
});

test("a Secret that breaks a rule is no key, is logged by its name alone, and takes no other key with it", async () => {
  const good = written();
  const broken = written({ hidden: "s3cr3t" });
  const elsewhere = written();
  elsewhere.object.metadata.namespace = NAMESPACE;
  const unlabelled = written();
  unlabelled.object.metadata.labels = {};
  const { client } = tenancy;
  for (const { object } of [broken, elsewhere, unlabelled, good]) await client.create(secrets, object);
  for (const edge of [first, second]) {
    await eventually(async () => (await listed(edge)).includes(good.id));
    const ids = await listed(edge);
    for (const { id } of [broken, elsewhere, unlabelled]) assert.not.ok(ids.includes(id));
    const logged = () => edge.process.lines.filter((line) => line.includes(broken.id));
    await eventually(() => logged().length > 0);
    const lines = logged();
    assert.is(lines.length, 1, lines.join("\n"));
    assert.match(lines[0] ?? "", "key.json: has an unknown field");
    assert.not.match(lines[0] ?? "", /s3cr3t|hidden/);
  }
  await eventually(() => keys.actorOf(good.text) !== undefined);
  for (const { text } of [broken, elsewhere, unlabelled]) assert.is(keys.actorOf(text), undefined);
});

test("an edge is ready once it has read the keys, and serves TENANCY_API_KEY before", async () => {
  const { client } = tenancy;
  let mayList = false;
  let lists = 0;
  const late: ClusterClient = {
    ...client,
    async list(resource, options) {
      if ((resource as object) !== secrets || options?.namespace !== KEYS || mayList)
        return await client.list(resource, options);
      lists += 1;
      throw new ApiError("secrets is forbidden", { status: 403, reason: "Forbidden" });
    },
  };
  const config = loadConfig({
    ...{ TENANCY_API_KEY: KEY, TENANCY_KEYS_NAMESPACE: KEYS, TENANCY_AUDIT: "off" },
    ...{ TENANCY_LISTEN: "127.0.0.1:0", TENANCY_EDGE_METRICS_LISTEN: "127.0.0.1:0" },
  });
  const refuse = async (): Promise<never> => {
    throw new Error("not in this test");
  };
  const noStore = (): never => {
    throw new Error("not in this test");
  };
  const parts = { exec: refuse, serve: serveNode, store: noStore, log: silentLog };
  const edge = await startEdge({ config, client: late, ...parts });
  try {
    await edge.synced;
    await eventually(() => lists > 0);
    const ready = async () => (await fetch(`${edge.metricsUrl}/readyz`)).status;
    const asked = async (key: string) =>
      (await fetch(`${edge.url}/api/v1/tenants`, { headers: { authorization: `Bearer ${key}` } })).status;
    const { text, object } = written();
    await client.create(secrets, object);
    await eventually(async () => (await asked(KEY)) === 200);
    assert.equal([await ready(), await asked(text)], [503, 503]);
    mayList = true;
    await eventually(async () => (await ready()) === 200);
    assert.is(await asked(text), 200);
  } finally {
    await edge.stop({ graceMs: 0 });
  }
});

test("a key ends at its expiry, and stays in the list until it is deleted", async () => {
  const { id, key } = await create({ name: "short", role: "admin", expiresInSeconds: 2 });
  await eventually(() => keys.list().some((one) => one.id === id));
  const actor = keys.actorOf(key);
  await eventually(() => keys.actorOf(key) === undefined);
  assert.is(actor === undefined || actor.ended.aborted, true);
  assert.ok((await listed(first)).includes(id));
});

test("no edge has printed a key, and each answer was as documented", () => {
  assert.ok(texts.length > 5);
  for (const edge of [first, second]) {
    assert.equal(edge.problems, []);
    for (const text of texts) assert.not.ok(edge.process.lines.some((line) => line.includes(text.slice(-43))));
  }
});

test.run();
