// @limit 1800
// @own-cluster
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { HEALTH_PORT, PROXY_CONTAINER, TENANT_FILE } from "../../../operator/egress/layout.ts";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { programFiles } from "../../../scripts/cluster/images/program-files.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { startUpstream } from "./upstream.ts";

const cluster = "egress-stack";
const image = { ref: "localhost/tenancy-curl:1" };
const header = { name: "Authorization", valueFrom: { secretKeyRef: { name: "github", key: "token" } } };
const network = {
  access: "restricted",
  allowlist: ["allowed.example"],
  credentials: [{ domain: "api.example", headers: [header] }],
};

const EGRESS_MARKS = "jsonpath={range .items[*]}[{.metadata.annotations.tenancy\\.dev/egress-settings}]{end}";
const folder = mkdtempSync(join(tmpdir(), "tenancy-egress-stack-"));

const test = suite<{ stack: Stack; upstream: ChildProcess }>("egress by domain, npm start");

test.before(async (context) => {
  await installDebianPackages(["curl"], () => undefined);
  const local = await upLocalCluster({ name: cluster });
  const base = await busyboxFiles(await findStaticBusybox(() => undefined));
  const curl = await programFiles({ programs: ["/usr/bin/curl"], files: [], base });
  const files = [...base, ...curl, { path: "data", uid: 65532, gid: 65532 }];
  const command = ["sh", "-c", "trap 'exit 0' TERM; sleep 36000 & wait $!"];
  await importImages(cluster, [{ name: image.ref, files, user: "65532:65532", command }]);
  const { upstream, env } = await startUpstream(local, ["allowed.example", "api.example", "later.example"]);
  context.upstream = upstream;
  context.stack = await startStack(cluster, env);
  await context.stack.kubectl("create", "secret", "generic", "github", "--from-literal=token=planted-secret");
});

test.after(async ({ stack, upstream }) => {
  upstream?.kill("SIGKILL");
  await stack?.interrupt();
  await downLocalCluster({ name: cluster });
  rmSync(folder, { recursive: true });
});

async function createWorkload(stack: Stack, name: string, spec: Record<string, unknown>): Promise<void> {
  const answer = await stack.call("POST", "/workloads", { name, spec: { image, ...spec } });
  assert.is(answer.status, 201, JSON.stringify(answer.body));
}

async function claim(stack: Stack, tenant: string, workload: string, resume = false): Promise<string> {
  const answer = await stack.claim(tenant, { workload, resume });
  assert.is(answer.status, 201, `${JSON.stringify(answer.body)}\n${stack.output()}`);
  return String(answer.body.instanceId);
}

async function run(stack: Stack, instance: string, script: string): Promise<string> {
  const answer = await stack.call("POST", `/instances/${instance}/exec`, { command: ["sh", "-c", script] });
  assert.is(answer.status, 200, JSON.stringify(answer.body));
  return String(answer.body.stdout);
}

const curlScript = (url: string) => `curl -sS -m 60 -w ' %{http_code}' ${url} 2>&1; echo " exit $?"`;
const curl = (stack: Stack, instance: string, url: string) => run(stack, instance, curlScript(url));

test("a claimed instance reaches what its workload lists, with credentials that it never sees", async ({ stack }) => {
  const started = performance.now();
  await createWorkload(stack, "agent", { network, filesystem: { overlayDirs: ["/data"] } });
  const instance = await claim(stack, "dora", "agent");
  console.log(`note: workload created and claimed cold after ${((performance.now() - started) / 1000).toFixed(1)} s`);
  assert.match(await curl(stack, instance, "https://allowed.example/"), /"serverName":"allowed.example".* 200 exit 0/);
  assert.match(await curl(stack, instance, "https://api.example/"), /"authorization":"planted-secret".* 200 exit 0/);
  assert.match(await curl(stack, instance, "https://later.example/"), /000 exit 35/);
  assert.match(await curl(stack, instance, "http://allowed.example/"), /000 exit 7/);
  const debug = JSON.stringify((await stack.call("GET", "/debug/resources")).body);
  assert.ok(debug.includes("haproxy.cfg"));
  const inside = await run(stack, instance, "cat /proc/*/environ /.tenancy-trust/*; env");
  for (const text of [debug, inside, stack.output()]) assert.not.match(text, /planted-secret|cGxhbnRlZC1zZWNyZXQ/);
  assert.not.match(debug, /PRIVATE KEY/);
});

test("the allowlist and a Secret change under a claim and under warm pods, which stay", async ({ stack }) => {
  const pool = {
    apiVersion: "tenancy.dev/v1alpha1",
    kind: "TenancyPool",
    metadata: { name: "agents" },
    spec: { workloadRef: "agent", size: 1 },
  };
  const { status, body } = await stack.call("GET", "/tenants/dora");
  assert.is(status, 200);
  const instance = String((body.claims as { instanceId: string }[])[0]?.instanceId);
  writeFileSync(join(folder, "pool.json"), JSON.stringify(pool));
  await stack.kubectl("create", "-f", join(folder, "pool.json"));
  const warm = () => stack.kubectl("get", "pods", "-l", "tenancy.dev/pool-status=ready", "-o", "name");
  const first = await waitUntil(async () => (await warm()).trim() || undefined, {
    what: "a warm pod",
    limitMs: 180_000,
  });
  const marks = () => stack.kubectl("get", "pods", "-l", "tenancy.dev/workload=agent", "-o", EGRESS_MARKS);
  assert.is(await marks(), "[][]");
  const spec = { image, network: { ...network, allowlist: ["later.example"] }, filesystem: { overlayDirs: ["/data"] } };
  assert.is((await stack.call("PUT", "/workloads/agent", { name: "agent", spec })).status, 200);
  const changed = performance.now();
  await waitUntil(async () => / 200 exit 0/.test(await curl(stack, instance, "https://later.example/")), {
    ...{ what: "the new allowlist", limitMs: 180_000, intervalMs: 100 },
  });
  console.log(
    `note: the running proxy had the new allowlist after ${((performance.now() - changed) / 1000).toFixed(1)} s`,
  );
  assert.match(await curl(stack, instance, "https://allowed.example/"), /000 exit 35/);
  // Without this, the kubelets would look at the pods' volumes within a minute.
  const marked = await marks();
  assert.match(marked, /^\[([0-9]+)\]\[\1\]$/);
  const patched = performance.now();
  await stack.kubectl("patch", "secret", "github", "-p", '{"stringData":{"token":"rotated-secret"}}');
  await waitUntil(async () => (await curl(stack, instance, "https://api.example/")).includes("rotated-secret"), {
    ...{ what: "the new value", limitMs: 180_000, intervalMs: 500 },
  });
  console.log(`note: the rotated Secret was in use after ${((performance.now() - patched) / 1000).toFixed(1)} s`);
  assert.not(marked === (await marks()), "a rotated Secret is hurried too");
  assert.is((await warm()).trim(), first);
  const restarts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
  const counts = await stack.kubectl("get", "pods", "-l", "tenancy.dev/workload=agent", "-o", restarts);
  assert.equal(new Set(counts.split(" ")), new Set(["0"]));
});

test("each refusal is counted, and a line of the sidecar's log that names the tenant, from the claim of a warm pod on", async ({
  stack,
}) => {
  const ready = await stack.kubectl("get", "pods", "-l", "tenancy.dev/pool-status=ready", "-o", "name");
  const warm = ready.trim().replace("pod/", "");
  const lines = async () =>
    (await stack.kubectl("logs", warm, "-c", PROXY_CONTAINER))
      .split("\n")
      .filter((line) => line.includes('"msg":"egress refused or failed"'))
      .map((line) => JSON.parse(line) as { tenant: string; name: string; reason: string })
      .filter(({ name: refused }) => refused === "allowed.example");
  // The client hears of a refusal before the log does.
  const untilLogged = (count: number) =>
    waitUntil(
      async () => {
        const found = await lines();
        return found.length >= count && found;
      },
      { what: `${count} refusals in the log`, limitMs: 60_000, intervalMs: 200 },
    );
  const unclaimedCurl = (url: string) =>
    stack.kubectl("exec", warm, "-c", WORKLOAD_CONTAINER, "--", "sh", "-c", curlScript(url));
  // What has changed reaches each pod at a time of its own, and the proxy that takes it over counts from 0.
  await waitUntil(async () => (await unclaimedCurl("https://api.example/")).includes("rotated-secret"), {
    ...{ what: "the new Secret", limitMs: 180_000, intervalMs: 500 },
  });
  await waitUntil(async () => /000 exit 35/.test(await unclaimedCurl("https://allowed.example/")), {
    ...{ what: "the new allowlist", limitMs: 180_000, intervalMs: 500 },
  });
  const unclaimed = await untilLogged(1);
  assert.equal(
    unclaimed.map(({ tenant, reason }) => ({ tenant, reason })),
    [{ tenant: "", reason: "not-listed" }],
  );
  const ip = await stack.kubectl("get", "pod", warm, "-o", "jsonpath={.status.podIP}");
  const denied = async () => {
    const text = await (await fetch(`http://${ip}:${HEALTH_PORT}/metrics`)).text();
    return ["redirect", "inject"].map((proxy) => {
      const line = `^haproxy_frontend_requests_denied_total\\{proxy="${proxy}"\\} ([0-9]+)$`;
      return Number(new RegExp(line, "m").exec(text)?.[1]);
    });
  };
  const [redirect = 0, inject = 0] = await denied();
  assert.is(await claim(stack, "erin", "agent"), warm);
  await waitUntil(
    async () => (await stack.kubectl("exec", warm, "-c", PROXY_CONTAINER, "--", "cat", TENANT_FILE)) === "erin",
    { what: "the tenant in the pod", limitMs: 180_000, intervalMs: 200 },
  );
  assert.match(await curl(stack, warm, "https://allowed.example/"), /000 exit 35/);
  assert.match(await curl(stack, warm, "-X TRACE https://api.example/"), /405 exit 0/);
  assert.equal(
    (await untilLogged(2)).map(({ tenant }) => tenant),
    ["", "erin"],
  );
  assert.equal(await denied(), [redirect + 1, inject + 1]);
});

test("files come back into a pod with a proxy, before and after its start", async ({ stack }) => {
  for (const source of ["pool+data", "cold+data"]) {
    const before = await claim(stack, "dora", "agent", true);
    await run(stack, before, `echo ${source} > /data/kept`);
    const released = await stack.release("dora", "agent");
    assert.is(released.status, 200, JSON.stringify(released.body));
    const warm = (state: string) => stack.kubectl("get", "pods", "-l", `tenancy.dev/pool=agents${state}`, "-o", "name");
    if (source === "cold+data") await stack.kubectl("delete", "tenancypool", "agents");
    await waitUntil(
      async () =>
        source === "cold+data" ? (await warm("")) === "" : (await warm(",tenancy.dev/pool-status=ready")) !== "",
      { what: `a pool for ${source}`, limitMs: 180_000, intervalMs: 200 },
    );
    const instance = await claim(stack, "dora", "agent", true);
    const { body } = await stack.call("GET", "/tenants/dora");
    assert.is((body.claims as { source: string }[])[0]?.source, source);
    assert.is((await run(stack, instance, "cat /data/kept")).trim(), source);
    assert.match(await curl(stack, instance, "https://api.example/"), /"authorization":"rotated-secret".* 200 exit 0/);
  }
});

test("a deleted workload takes its Secrets and its ConfigMap along", async ({ stack }) => {
  const objects = () => stack.kubectl("get", "configmaps,secrets", "-l", "tenancy.dev/workload=agent", "-o", "name");
  assert.is((await objects()).trim().split("\n").length, 3);
  for (const tenant of ["dora", "erin"]) await stack.call("POST", `/tenants/${tenant}/release`, { workload: "agent" });
  assert.is((await stack.call("DELETE", "/workloads/agent")).status, 200);
  await waitUntil(async () => (await objects()).trim() === "", { what: "its objects to go", limitMs: 60_000 });
});

test("a cluster that forbids NET_ADMIN puts the workload in Error with that reason", async ({ stack }) => {
  await stack.kubectl("label", "namespace", "tenancy", "pod-security.kubernetes.io/enforce=baseline");
  await createWorkload(stack, "forbidden", { network });
  const status = async () => (await stack.call("GET", "/workloads/forbidden")).body.status as Record<string, string>;
  await waitUntil(async () => (await status()).phase === "Error", { what: "the Error", limitMs: 60_000 });
  assert.is((await status()).reason, "RedirectForbidden");
  assert.match((await status()).message ?? "", /NET_ADMIN/);
  await createWorkload(stack, "plain", {});
  await claim(stack, "bob", "plain");
});

test.run();
