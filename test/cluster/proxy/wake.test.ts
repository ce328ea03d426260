import { suite } from "uvu";
import * as assert from "uvu/assert";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import { eventually } from "../../eventually.ts";
import { type EdgeProcess, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";
import { askAt, type NamedPods, POD_NETWORK, startNamedPods } from "./named-pods.ts";

const test = suite("the front door of two replicas, on a real API server");

const KEY = "front-door-key";
const SECRET = "tenancy-proxy-keys";
const key = { "x-tenancy-key": KEY };
let tenancy: Tenancy;
let operator: RunningOperator;
let named: NamedPods;
let doors: [EdgeProcess, EdgeProcess];

test.before(async () => {
  named = await startNamedPods(() => tenancy.client);
  tenancy = await startTenancy("front-door", { nodes: { podNetwork: POD_NETWORK } });
  tenancy.pods.subscribe(named.onPod);
  operator = tenancy.startOperator();
  const network = { ports: [named.port], expose: "key" as const };
  await tenancy.createWorkload("app", { network });
  await tenancy.createWorkload("shared", { network: { ...network, expose: "link" } });
  await tenancy.createWorkload("broken", { network, image: { ref: "simulated/missing:1" } });
  const env = {
    KUBECONFIG: tenancy.cluster.kubeconfigPath,
    TENANCY_API_KEY: KEY,
    TENANCY_EDGE_ROLES: "api,proxy",
    TENANCY_PROXY_WAIT: "30",
  };
  doors = [await startReadyEdge("bun", env), await startReadyEdge("bun", env)];
});

test.after(async () => {
  for (const { child, exited } of doors ?? []) {
    child.kill("SIGTERM");
    await exited;
  }
  await tenancy?.stop();
  await named?.stop();
});

const ask = (door: EdgeProcess, host: string, options: Parameters<typeof askAt>[2] = { headers: key }) =>
  askAt(door.proxyUrl, `${host}.localhost`, options);

async function linkTo(tenant: string, expiresInSeconds = 60): Promise<{ status: number; path: string; error: string }> {
  const response = await fetch(`${doors[0].url}/api/v1/tenants/${tenant}/links`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${KEY}` },
    body: JSON.stringify({ workload: "shared", expiresInSeconds }),
  });
  const { url = "http://x/", error = "" } = (await response.json()) as { url?: string; error?: string };
  const { host, pathname, search } = new URL(url);
  if (error === "") assert.match(host, /^shared--\w+\.localhost:\d+$/);
  return { status: response.status, path: pathname + search, error };
}

/** Gives the Secret of links' keys these entries. */
async function putKeys(names: readonly string[]): Promise<void> {
  const data = Object.fromEntries(names.map((name) => [name, Buffer.alloc(32, name).toString("base64")]));
  const ref = { namespace: NAMESPACE, name: SECRET };
  await tenancy.client.delete(secrets, ref).catch(() => undefined);
  if (names.length > 0) await tenancy.client.create(secrets, { metadata: ref, data });
}

test("a hundred requests over both replicas make one claim, and all are answered by its pod", async () => {
  const asked = Array.from({ length: 100 }, (_, index) => ask(doors[index % 2 === 0 ? 0 : 1], "app--alice"));
  for (const { status, text } of await Promise.all(asked)) assert.equal([status, text], [200, "alice"]);
  const { items } = await tenancy.client.list(claims, { namespace: NAMESPACE });
  assert.equal(
    items.map(({ spec }) => spec),
    [{ tenantId: "alice", workloadRef: "app", resume: true }],
  );
});

test("a broken workload is a 503 with its reason, and one attempt for many visitors", async () => {
  const answers = await Promise.all(Array.from({ length: 10 }, () => ask(doors[0], "broken--alice")));
  for (const { status, text, headers } of answers) {
    assert.is(status, 503);
    assert.is(headers["retry-after"], "1");
    assert.match(text, /image/i);
  }
});

test("a release under a request: it ends with 503, and the next one wakes the instance anew", async () => {
  assert.is((await ask(doors[1], "app--rita")).text, "rita");
  const answer = named.onRequest;
  let isWaiting = false;
  named.onRequest = () => {
    isWaiting = true;
  };
  const held = ask(doors[0], "app--rita");
  await eventually(() => isWaiting);
  await tenancy.deleteClaim("claim-rita-app");
  const ended = await held;
  assert.is(ended.status, 503, ended.text);
  named.onRequest = answer;
  const again = await ask(doors[1], "app--rita");
  assert.equal([again.status, again.text], [200, "rita"]);
});

test("links: the Secret's keys, their rotation and their end, without a restart", async () => {
  const none = await linkTo("alice");
  assert.is(none.status, 503);
  assert.match(none.error, `Secret ${SECRET} does not exist`);
  await putKeys(["2026-01"]);
  await eventually(async () => (await linkTo("alice")).status === 201);
  const first = (await linkTo("alice")).path;
  const statusOf = async (path: string, door = doors[1], host = "shared--alice") =>
    (await ask(door, host, { path })).status;
  await eventually(async () => (await statusOf(first)) === 200);
  assert.is(await statusOf(first, doors[0], "shared--bob"), 404);

  const page = await ask(doors[1], "shared--alice", { path: first, headers: { accept: "text/html" } });
  assert.is(page.status, 303);
  const [cookie = ""] = page.headers["set-cookie"]?.[0]?.split(";") ?? [];
  const byCookie = async () => (await ask(doors[0], "shared--alice", { headers: { cookie } })).status;
  assert.is(await byCookie(), 200);

  await putKeys(["2026-01", "2026-02"]);
  await eventually(async () => {
    const { status, path } = await linkTo("alice");
    return status === 201 && (await statusOf(path)) === 200 && path.length > 0;
  });
  assert.is(await statusOf(first), 200);
  await putKeys(["2026-02"]);
  await eventually(async () => (await statusOf(first)) === 404);
  await eventually(async () => (await byCookie()) === 404);
  await putKeys(["2026-02", "2026-03", "2026-04"]);
  await eventually(async () => /has 3 keys/.test((await linkTo("alice")).error));
});

test("closing a workload closes it at both replicas", async () => {
  assert.is((await ask(doors[0], "app--alice")).status, 200);
  const ref = { namespace: NAMESPACE, name: "app" };
  const body = { spec: { network: { expose: "none" } } };
  await tenancy.client.patch(workloads, ref, { type: "merge", body });
  for (const door of doors) await eventually(async () => (await ask(door, "app--alice")).status === 404);
});

test("a replica that stops lets its requests finish", async () => {
  let finish: (() => void) | undefined;
  named.onRequest = (tenant, _, response) => {
    finish = () => response.end(tenant);
  };
  const held = ask(doors[1], "shared--ben");
  await eventually(() => finish !== undefined);
  doors[1].child.kill("SIGTERM");
  await eventually(() => doors[1].lines.some((line) => line.includes("edge stopping")));
  finish?.();
  const { status, text } = await held;
  assert.equal([status, text], [200, "ben"]);
  assert.is(await doors[1].exited, 0);
  assert.ok(operator.requests.length > 0);
});

test.run();
