// @own-cluster
// @limit 900
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, namespaces, secrets } from "../../../crds/client/built-in-resources.ts";
import { eventually } from "../../eventually.ts";
import { edgeRuntimes } from "../edge-runtimes.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { KEY, type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("every route on a real API server");
let tenancy: Tenancy;
let edge: RestEdge;

const SECRET = "s3cr3t-value-of-a-secret";
const spec = { image: { ref: "simulated/hello:1" } };
const trigger = { type: "webhook", workloadRef: "app", tenant: { static: "a" }, config: { path: "/hooks/a" } };
const isPublic = [
  "GET /api/v1/health",
  "GET /api/v1/stats",
  "GET /ws",
  ...["GET", "POST", "DELETE"].map((method) => `${method} /api/v1/session`),
];
const pool = { workloadRef: "app", size: 1 };

/** A request of a kind; `{instance}` in it is the pod of tenant a, `{keyId}` the created key, `$runtime` the runtime. */
interface Try {
  path?: string;
  body?: unknown;
}

/** Per route: what succeeds, what is not there, and what is not valid; undefined where there is no such request. */
const routes: [route: string, tries: { success: Try; missing?: Try; bad?: Try; expected: string }][] = [
  ["GET /api/v1/health", { success: {}, expected: "200 - - 200 200 200" }],
  ["GET /api/v1/stats", { success: {}, expected: "200 - - 200 200 503" }],
  [
    "POST /api/v1/workloads",
    {
      success: { body: { name: "$runtime", spec } },
      bad: { body: { name: "$runtime", spec: {} } },
      expected: "201 - 400 401 401 503",
    },
  ],
  ["GET /api/v1/workloads", { success: {}, expected: "200 - - 401 401 503" }],
  [
    "GET /api/v1/workloads/{name}",
    {
      success: at("/workloads/$runtime"),
      missing: at("/workloads/none"),
      bad: at("/workloads/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "PUT /api/v1/workloads/{name}",
    {
      success: { ...at("/workloads/$runtime"), body: { spec } },
      missing: { ...at("/workloads/none"), body: { spec } },
      bad: { ...at("/workloads/$runtime"), body: { spec, more: 1 } },
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "GET /api/v1/workloads/{name}/snapshots",
    {
      success: at("/workloads/$runtime/snapshots"),
      missing: at("/workloads/none/snapshots"),
      bad: at("/workloads/A/snapshots"),
      expected: "200 404 400 401 401 503",
    },
  ],
  // There is no snapshots volume here, and nothing is built: success is for test/cluster/builds to see.
  [
    "PUT /api/v1/workloads/{name}/context",
    {
      success: { ...at("/workloads/built/context"), body: {} },
      missing: { ...at("/workloads/none/context"), body: {} },
      bad: { ...at("/workloads/A/context"), body: {} },
      expected: "503 404 400 401 401 503",
    },
  ],
  [
    "GET /api/v1/workloads/{name}/build",
    {
      success: at("/workloads/built/build"),
      missing: at("/workloads/none/build"),
      bad: at("/workloads/A/build"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/workloads/{name}/build",
    {
      success: at("/workloads/built/build"),
      missing: at("/workloads/none/build"),
      bad: at("/workloads/A/build"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "GET /api/v1/workloads/{name}/build/logs",
    {
      success: at("/workloads/built/build/logs"),
      missing: at("/workloads/none/build/logs"),
      bad: at("/workloads/built/build/logs?tail=x"),
      expected: "404 404 400 401 401 503",
    },
  ],
  [
    "DELETE /api/v1/workloads/{name}",
    {
      success: at("/workloads/$runtime"),
      missing: at("/workloads/none"),
      bad: at("/workloads/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  ["GET /api/v1/snapshots", { success: {}, expected: "200 - - 401 401 503" }],
  // There is no snapshots volume here: success is for test/e2e/snapshots to see.
  [
    "DELETE /api/v1/tenants/{id}/snapshots/{workload}",
    {
      success: at("/tenants/a/snapshots/app"),
      missing: at("/tenants/a/snapshots/none"),
      bad: at("/tenants/a/snapshots/App"),
      expected: "404 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/tenants/{id}/claim",
    {
      success: { ...at("/tenants/a/claim"), body: { workload: "app", expiresInSeconds: 3600 } },
      missing: { ...at("/tenants/a/claim"), body: { workload: "none" } },
      bad: { ...at("/tenants/a/claim"), body: { workload: 1 } },
      expected: "201 404 400 401 401 503",
    },
  ],
  ["GET /api/v1/claims", { success: {}, bad: at("/claims?limit=0"), expected: "200 - 400 401 401 503" }],
  [
    "GET /api/v1/tenants/{id}/claims/{workload}",
    {
      success: at("/tenants/a/claims/app"),
      missing: at("/tenants/a/claims/none"),
      bad: at("/tenants/a/claims/App"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/tenants/{id}/extend",
    {
      success: { ...at("/tenants/a/extend"), body: { workload: "app", seconds: 3600 } },
      missing: { ...at("/tenants/a/extend"), body: { workload: "none", seconds: 60 } },
      bad: { ...at("/tenants/a/extend"), body: { workload: "app", seconds: 0 } },
      expected: "200 404 400 401 401 503",
    },
  ],
  // No release fails here: success is for test/unit/edge/read-claims to see.
  [
    "POST /api/v1/tenants/{id}/discard",
    {
      success: { ...at("/tenants/a/discard"), body: { workload: "app" } },
      missing: { ...at("/tenants/a/discard"), body: { workload: "none" } },
      bad: { ...at("/tenants/a/discard"), body: {} },
      expected: "409 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/tenants/{id}/links",
    {
      success: { ...at("/tenants/a/links"), body: { workload: "linked" } },
      missing: { ...at("/tenants/a/links"), body: { workload: "none" } },
      bad: { ...at("/tenants/a/links"), body: {} },
      expected: "201 404 400 401 401 503",
    },
  ],
  [
    "GET /api/v1/tenants/{id}",
    { success: at("/tenants/a"), bad: at("/tenants/-a"), expected: "200 - 400 401 401 503" },
  ],
  ["GET /api/v1/tenants", { success: {}, expected: "200 - - 401 401 503" }],
  ["GET /api/v1/instances", { success: {}, expected: "200 - - 401 401 503" }],
  [
    "GET /api/v1/instances/{id}",
    {
      success: at("/instances/{instance}"),
      missing: at("/instances/none"),
      bad: at("/instances/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  // There is no kubelet here that could answer: success is for test/e2e/rest to see.
  [
    "GET /api/v1/instances/{id}/logs",
    {
      success: at("/instances/{instance}/logs"),
      missing: at("/instances/none/logs"),
      bad: at("/instances/{instance}/logs?tail=x"),
      expected: "503 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/instances/{id}/exec",
    {
      success: { ...at("/instances/{instance}/exec"), body: { command: ["true"] } },
      missing: { ...at("/instances/none/exec"), body: { command: ["true"] } },
      bad: { ...at("/instances/{instance}/exec"), body: { command: [] } },
      expected: "503 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/instances/{id}/activity",
    {
      success: at("/instances/{instance}/activity"),
      missing: at("/instances/none/activity"),
      bad: at("/instances/A/activity"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/instances/{id}/destroy",
    {
      success: at("/instances/{instance}/destroy"),
      missing: at("/instances/none/destroy"),
      bad: at("/instances/A/destroy"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/tenants/{id}/release",
    {
      success: { ...at("/tenants/a/release?wait=true"), body: { workload: "app" } },
      missing: { ...at("/tenants/a/release"), body: { workload: "none" } },
      bad: { ...at("/tenants/a/release?wait=maybe"), body: { workload: "app" } },
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/pools",
    {
      success: { body: { name: "warm", spec: pool } },
      bad: { body: { name: "warm", spec: { ...pool, size: -1 } } },
      expected: "201 - 400 401 401 503",
    },
  ],
  ["GET /api/v1/pools", { success: {}, expected: "200 - - 401 401 503" }],
  [
    "GET /api/v1/pools/{name}",
    {
      success: at("/pools/warm"),
      missing: at("/pools/none"),
      bad: at("/pools/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "PUT /api/v1/pools/{name}",
    {
      success: { ...at("/pools/warm"), body: { spec: { ...pool, size: 2 } } },
      missing: { ...at("/pools/none"), body: { spec: pool } },
      bad: { ...at("/pools/warm"), body: { spec: {} } },
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "GET /api/v1/pools/{name}/history",
    {
      success: at("/pools/warm/history"),
      missing: at("/pools/none/history"),
      bad: at("/pools/A/history"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "DELETE /api/v1/pools/{name}",
    {
      success: at("/pools/warm"),
      missing: at("/pools/none"),
      bad: at("/pools/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "POST /api/v1/triggers",
    {
      success: { body: { name: "hook", spec: trigger } },
      bad: { body: { name: "hook", spec: { ...trigger, config: {} } } },
      expected: "201 - 400 401 401 503",
    },
  ],
  ["GET /api/v1/triggers", { success: {}, expected: "200 - - 401 401 503" }],
  [
    "GET /api/v1/triggers/{id}",
    {
      success: at("/triggers/hook"),
      missing: at("/triggers/none"),
      bad: at("/triggers/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "PUT /api/v1/triggers/{id}",
    {
      success: { ...at("/triggers/hook"), body: { spec: trigger } },
      missing: { ...at("/triggers/none"), body: { spec: trigger } },
      bad: { ...at("/triggers/hook"), body: { spec: {} } },
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "GET /api/v1/triggers/{id}/deliveries",
    {
      success: at("/triggers/hook/deliveries"),
      missing: at("/triggers/none/deliveries"),
      bad: at("/triggers/A/deliveries"),
      expected: "200 404 400 401 401 503",
    },
  ],
  // The trigger was edited a moment ago: success is for test/cluster/gateway to see.
  [
    "POST /api/v1/triggers/{id}/test",
    {
      missing: { ...at("/triggers/none/test"), body: {} },
      bad: { ...at("/triggers/hook/test"), body: { more: 1 } },
      success: { ...at("/triggers/none/test"), body: {} },
      expected: "404 404 400 401 401 503",
    },
  ],
  [
    "DELETE /api/v1/triggers/{id}",
    {
      success: at("/triggers/hook"),
      missing: at("/triggers/none"),
      bad: at("/triggers/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  ["GET /api/v1/debug/resources", { success: {}, expected: "200 - - 401 401 503" }],
  ["GET /ws", { success: {}, bad: { path: "/ws?type=x" }, expected: "426 - 426 426 426 426" }],
  ["GET /api/v1/history/claims", { success: {}, expected: "200 - - 401 401 503" }],
  ["GET /api/v1/session", { success: {}, expected: "200 - - 200 200 200" }],
  [
    "POST /api/v1/session",
    { success: { body: { key: KEY } }, bad: { body: { key: 1 } }, expected: "200 - 400 200 200 200" },
  ],
  ["DELETE /api/v1/session", { success: {}, expected: "200 - - 200 200 200" }],
  [
    "POST /api/v1/keys",
    {
      success: { body: { name: "$runtime", role: "platform" } },
      bad: { body: { name: "$runtime", role: "tenant" } },
      expected: "201 - 400 401 401 503",
    },
  ],
  ["GET /api/v1/keys", { success: {}, expected: "200 - - 401 401 503" }],
  [
    "GET /api/v1/keys/{id}",
    {
      success: at("/keys/{keyId}"),
      missing: at("/keys/0000000000000000"),
      bad: at("/keys/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  [
    "DELETE /api/v1/keys/{id}",
    {
      success: at("/keys/{keyId}"),
      missing: at("/keys/0000000000000000"),
      bad: at("/keys/A"),
      expected: "200 404 400 401 401 503",
    },
  ],
  ["GET /api/v1/audit", { success: {}, bad: at("/audit?since=now"), expected: "200 - 400 401 401 200" }],
  ["GET /api/v1/openapi.json", { success: {}, expected: "200 - - 401 401 200" }],
  ["GET /docs", { success: {}, expected: "200 - - 401 401 200" }],
];

function at(path: string): Try {
  return { path: `/api/v1${path}` };
}

test.before(async () => {
  tenancy = await startTenancy("rest-routes");
  tenancy.startOperator();
  await tenancy.createWorkload("app");
  await tenancy.createWorkload("linked", { network: { expose: "link" } });
  await tenancy.client.create(secrets, {
    metadata: { name: "tenancy-proxy-keys", namespace: NAMESPACE },
    stringData: { "2026": "x".repeat(32) },
  } as never);
  await tenancy.client.create(namespaces, { metadata: { name: "tenancy-keys" } });
  await tenancy.createWorkload("built", { image: { dockerfile: "Dockerfile" } });
  await tenancy.client.create(secrets, {
    metadata: { name: "s", namespace: NAMESPACE },
    stringData: { value: SECRET },
  } as never);
  await tenancy.client.create(configMaps, { metadata: { name: "c", namespace: NAMESPACE }, data: { a: "b" } } as never);
});

for (const runtime of edgeRuntimes) {
  test(`${runtime}: every route answers as it should and as it is documented`, async () => {
    const env = {
      KUBECONFIG: tenancy.cluster.kubeconfigPath,
      TENANCY_PROXY_DOMAIN: "apps.test",
      TENANCY_KEYS_NAMESPACE: "tenancy-keys",
    };
    edge = await startRestEdge(runtime, env);
    const seen = new Map<string, string[]>();
    let instance = "none";
    let keyId = "none";
    const run = async (route: string, one: Try | undefined, key: { key?: string | undefined } = {}) => {
      if (one === undefined) return "-";
      const filled = JSON.stringify(one)
        .replaceAll("{instance}", instance)
        .replaceAll("{keyId}", keyId)
        .replaceAll("$runtime", runtime);
      const { status, json, text } = await edge.call(route, { ...(JSON.parse(filled) as Try), ...key });
      if (route === "POST /api/v1/keys" && status === 201) keyId = (json as { id: string }).id;
      if (route === "POST /api/v1/tenants/{id}/claim" && status === 201) {
        instance = (json as { instanceId: string }).instanceId;
        await eventually(
          async () =>
            (await edge.call("GET /api/v1/instances/{id}", { path: `/api/v1/instances/${instance}` })).status === 200,
        );
      }
      if (status >= 400) assert.type((json as { error: unknown })?.error, "string", `${route}: ${text}`);
      return String(status);
    };
    for (const [route, { success, missing, bad }] of routes) {
      seen.set(route, [
        await run(route, success),
        await run(route, missing),
        await run(route, bad),
        await run(route, success, { key: undefined }),
        await run(route, success, { key: "wrong" }),
      ]);
    }
    await tenancy.cluster.apiServer.stop();
    await eventually(async () => (await edge.call("GET /api/v1/stats")).status === 503);
    // The watches end one after the other, and each route goes by its own.
    for (const [route, { success, expected }] of routes) {
      let status = "";
      await eventually(async () => {
        status = await run(route, success);
        return status === expected.split(" ")[5];
      });
      seen.get(route)?.push(status);
    }
    await tenancy.cluster.apiServer.start();
    await eventually(async () => (await edge.call("GET /api/v1/stats")).status === 200);

    console.log(`note: ${`${runtime}: route`.padEnd(52)} ok  miss bad nokey wrong down`);
    for (const [route, statuses] of seen)
      console.log(`note: ${route.padEnd(52)} ${statuses.map((one) => one.padEnd(4)).join(" ")}`);
    for (const [route, { expected }] of routes) {
      const got = seen.get(route)?.map((one, index) => (expected.split(" ")[index] === "?" ? "?" : one));
      assert.is(got?.join(" "), expected, route);
      assert.is(isPublic.includes(route), !expected.includes("401"), route);
    }
    assert.equal(edge.problems, []);
    const stopped = await edge.stop();
    assert.is(stopped, 0, edge.process.lines.join("\n"));
    assert.not.ok(edge.process.lines.some((line) => line.includes(KEY)));
  });
}

for (const runtime of edgeRuntimes) {
  test(`${runtime}: a server without kubectl says so at its start and in the answer, and serves the rest`, async () => {
    edge = await startRestEdge(runtime, { KUBECONFIG: tenancy.cluster.kubeconfigPath, PATH: "/nowhere" });
    await eventually(() =>
      edge.process.lines.some((line) => line.includes("logs and exec of instances are unavailable")),
    );
    const claim = { path: `/api/v1/tenants/${runtime}-k/claim`, body: { workload: "app" } };
    const { status, text, json } = await edge.call("POST /api/v1/tenants/{id}/claim", claim);
    assert.is(status, 201, text);
    const path = `/api/v1/instances/${(json as { instanceId: string }).instanceId}`;
    for (const answer of [
      await edge.call("GET /api/v1/instances/{id}/logs", { path: `${path}/logs` }),
      await edge.call("POST /api/v1/instances/{id}/exec", { path: `${path}/exec`, body: { command: ["true"] } }),
    ]) {
      assert.is(answer.status, 503, answer.text);
      assert.match(answer.text, "this server has no kubectl, which logs and exec need; install kubectl 1.20 or newer");
    }
    assert.equal(edge.problems, []);
  });
}

test("the debug dump has what is in the namespace, and no Secret", async () => {
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
  const { json, text } = await edge.call("GET /api/v1/debug/resources");
  const dump = json as Record<string, { metadata: { name: string } }[]>;
  const namesOf = (key: string) => dump[key]?.map(({ metadata }) => metadata.name) ?? [];
  assert.ok(namesOf("configMaps").includes("c"));
  assert.ok(namesOf("workloads").includes("app"));
  assert.ok(namesOf("networkPolicies").length > 0);
  for (const form of [SECRET, Buffer.from(SECRET).toString("base64"), "managedFields"])
    assert.not.ok(text.includes(form));
  await edge.stop();
});

test.after.each(async () => void (await edge.stop()));
test.after(() => tenancy?.stop());

test.run();
