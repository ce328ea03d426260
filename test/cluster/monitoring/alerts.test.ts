// @own-cluster
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, jobs, namespaces, pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { triggers, workloads } from "../../../crds/kinds.ts";
import { label } from "../../../crds/labels.ts";
import { openStore } from "../../../crds/snapshots/open-store.ts";
import { SECRET_KEYS } from "../../../crds/snapshots/store-endpoint.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import type { TriggerSpec } from "../../../crds/trigger.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { makeSelfSigned } from "../../../operator/snapshots/self-signed.ts";
import { bundleOperator } from "../../../scripts/start/bundle-programs.ts";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";
import { type EdgeProcess, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { save } from "../../unit/snapshots/store-contract.ts";
import { type AccountProgram, startProgramOf } from "../isolation/program-of-account.ts";
import { runHelper } from "../snapshots/simulated-helper.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { type Course, readAlerts, testRules } from "./promtool.ts";
import { only, type Scrape, scrapeAll, type Target } from "./scrape.ts";

const test = suite("alerts, on what operators and an edge tell on a real API server");

const KEY = "monitoring-key";
const OPERATOR = { job: "tenancy-operator-metrics", app: "tenancy-operator" };
const EDGE = { job: "tenancy-edge-metrics", app: "tenancy-edge" };
const DAY_MS = 24 * 3_600_000;
const BUILDS = "tenancy-builds";
const rules = readAlerts().groups.flatMap((group) => group.rules);
const names = new Set(rules.flatMap(({ expr }) => expr.match(/\b(?:tenancy|process)_\w+/g) ?? []));
const isWanted = (name: string) => names.has(name);
const courses: Course[] = [];
const root = mkdtempSync(join(tmpdir(), "tenancy-alerts-"));

let tenancy: Tenancy;
let operators: Operator[];
let edge: EdgeProcess;
let port: number;
const stops: (() => unknown)[] = [() => rmSync(root, { recursive: true, maxRetries: 20 })];

interface Operator {
  readonly program: AccountProgram;
  readonly url: string;
}

async function startOperator(env: Record<string, string>): Promise<Operator> {
  const command = [process.execPath, await bundle];
  const program = startProgramOf({ prefix: [], env: {} }, command, {
    PATH: process.env.PATH ?? "",
    KUBECONFIG: tenancy.cluster.kubeconfigPath,
    TENANCY_OPERATOR_LISTEN: "127.0.0.1:0",
    TENANCY_LEASE_SECONDS: "4",
    ...env,
  });
  stops.unshift(() => {
    program.child.kill("SIGKILL");
    return program.stop();
  });
  return { program, url: String((await program.logged("operator started")).metrics) };
}
const bundle = bundleOperator(join(import.meta.dirname, "../../.."));

const operatorEnv = {
  TENANCY_SNAPSHOT_IMAGE: "simulated/snapshots:1",
  TENANCY_SNAPSHOT_WORKLOAD_LIMIT: "1000",
  TENANCY_REGISTRY: "registry.example.com/built",
  TENANCY_PROXY_IMAGE: "simulated/proxy:1",
};

function targets(): Target[] {
  return [
    ...operators.map(({ url }, index) => ({ ...OPERATOR, pod: `operator-${index}`, url })),
    { ...EDGE, pod: "edge", url: edge.metricsUrl },
  ];
}

const scrape = (of = targets()): Promise<Scrape> => scrapeAll(of, { isWanted });

/** The value of a series of a scrape; of several, their sum. */
function figureOf({ samples }: Scrape, name: string, ...labels: string[]): number {
  const found = [...samples].filter(
    ([series]) => series.startsWith(`${name}{`) && labels.every((label) => series.includes(label)),
  );
  return found.reduce((sum, [, value]) => sum + value, 0);
}

/** Whether all see the cluster, and one leads. */
function isWhole(told: Scrape): boolean {
  const contacts = figureOf(told, "tenancy_operator_cluster_contact") + figureOf(told, "tenancy_edge_cluster_contact");
  return contacts === operators.length + 1 && figureOf(told, "tenancy_operator_leading") === 1;
}

/** Scrapes until it is so. */
function untilTold(what: string, isSo: (told: Scrape) => boolean, of?: () => Target[]): Promise<Scrape> {
  return tenancy.until(what, async () => {
    const told = await scrape(of?.());
    return isSo(told) && told;
  });
}

const createTrigger = (name: string, spec: Partial<TriggerSpec>) =>
  tenancy.client.create(triggers, {
    metadata: { name, namespace: NAMESPACE },
    spec: { type: "webhook", workloadRef: "app", tenant: { static: "hooked" }, config: {}, ...spec },
  });

const untilTrigger = (name: string, phase: string) =>
  tenancy.until(`trigger ${name} ${phase}`, async () => {
    const { status, metadata } = await tenancy.client.get(triggers, { namespace: NAMESPACE, name });
    return status?.observedGeneration === metadata.generation && status?.phase === phase;
  });

/** Asked of the API server: a watch may not have told yet that a warm pod was claimed. */
const untilFull = () =>
  tenancy.until("the pool to be full", async () => {
    const labelSelector = `${label.pool}=app,${label.poolStatus}=ready`;
    return (await tenancy.client.list(pods, { namespace: NAMESPACE, labelSelector })).items.length === 6;
  });

/** Repeats a call that is refused since the cluster is busy. */
const untilTaken = (call: () => Promise<Response>): Promise<number> =>
  tenancy.until("a call that is taken", async () => {
    const { status } = await call();
    return status !== 429 && status;
  });

const claim = (tenant: string, workload: string) =>
  untilTaken(() =>
    fetch(`${edge.url}/api/v1/tenants/${tenant}/claim`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${KEY}` },
      body: JSON.stringify({ workload }),
    }),
  );

const visit = (tenant: string, workload: string) =>
  untilTaken(() => fetch(`${edge.proxyUrl}/t/${tenant}/${workload}/`, { headers: { "x-tenancy-key": KEY } }));

const deliver = (path: string, n: number) =>
  untilTaken(() =>
    fetch(`${edge.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ n }),
    }),
  );

const all = <T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));

/** What the volume has. */
const space = { freeBytes: 600, totalBytes: 1000 };
let helper: { stop(): Promise<void> };
const messenger = new FakeMessenger();
let messengerUrl: string;

test.before(async () => {
  const server = createServer((request, response) => void request.resume().on("end", () => response.end("well")));
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  stops.push(() => server.close());
  port = (server.address() as AddressInfo).port;
  messengerUrl = await messenger.start();
  stops.push(() => messenger.stop());
  messenger.bot("1:good");

  tenancy = await startTenancy("test-alerts", { nodes: { podNetwork: "127.83" } });
  stops.push(() => tenancy.stop());
  const { client } = tenancy;
  // A certificate that is renewed in a day.
  const [from, until] = [new Date(Date.now() - 3_600_000), new Date(Date.now() + 31 * DAY_MS)];
  const { key, certificate } = makeSelfSigned({ name: SNAPSHOTS_NAME, from, until });
  const values = {
    ...{ [SECRET_KEYS.key]: key, [SECRET_KEYS.certificate]: certificate },
    ...{ [SECRET_KEYS.token]: "a".repeat(64), [SECRET_KEYS.namesToken]: "b".repeat(64) },
  };
  const data = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, Buffer.from(value).toString("base64")]),
  );
  await client.create(namespaces, { metadata: { name: BUILDS } });
  await client.create(secrets, { metadata: { name: SNAPSHOTS_NAME, namespace: NAMESPACE }, data });
  for (const [name, token] of [
    ["good", "1:good"],
    ["bad", "2:bad"],
  ] as const) {
    const encoded = Buffer.from(token).toString("base64");
    await client.create(secrets, { metadata: { name, namespace: NAMESPACE }, data: { token: encoded } });
  }
  const exposed = (ports: number[]): Partial<WorkloadSpec> => ({ network: { ports, expose: "key" } });
  await tenancy.createWorkload("app", exposed([port]));
  // Where nothing listens.
  await tenancy.createWorkload("closed", exposed([1]));
  await tenancy.createWorkload("keeps", { filesystem: { overlayDirs: ["/data"] } });
  await tenancy.createPool("app", { workloadRef: "app", size: 6, maxFillConcurrency: 6 });
  const config = { path: "/hook" };
  await createTrigger("hook", { config });
  const botTokenSecretRef = { name: "good", key: "token" };
  const bot = { apiBaseUrl: messengerUrl, pollTimeoutSeconds: 1 };
  await createTrigger("bot", { type: "messenger", config: { ...bot, botTokenSecretRef } });

  const first = await startOperator(operatorEnv);
  operators = [first];
  edge = await startReadyEdge("bun", {
    KUBECONFIG: tenancy.cluster.kubeconfigPath,
    TENANCY_API_KEY: KEY,
    TENANCY_EDGE_ROLES: "api,gateway,proxy",
    TENANCY_PROXY_WAIT: "10",
  });
  stops.unshift(async () => {
    edge.child.kill("SIGKILL");
    await edge.exited;
  });
  helper = await runHelper(tenancy, root, { space: async () => ({ ...space }) });
  operators.push(await startOperator(operatorEnv));
  await untilFull();
  for (const name of ["hook", "bot"]) await untilTrigger(name, "Active");
});

test.after(async () => {
  for (const stop of stops) await stop();
});

let healthy: Scrape;

test("nothing fires while all is well", async () => {
  const before = await untilTold("the store and the bot", (told) => {
    const isStored = figureOf(told, "tenancy_snapshot_volume_total_bytes") === 1000;
    return (
      isStored &&
      isWhole(told) &&
      figureOf(told, "tenancy_gateway_bots_polled") === 1 &&
      figureOf(told, "tenancy_certificate_end_timestamp_seconds") > 0
    );
  });
  assert.equal(await all(2, (index) => claim(`t${index}`, "app")), [201, 201]);
  assert.equal(await all(3, (index) => deliver("/hook", index)), [200, 200, 200]);
  assert.equal(await all(3, (index) => visit(`t${index % 2}`, "app")), [200, 200, 200]);
  await untilFull();
  healthy = await untilTold("all programs to see the cluster", isWhole);
  const held = [
    { scrape: before, steps: 10 },
    { scrape: healthy, steps: 60 },
  ];
  courses.push({ name: "all is well", ...{ step: "1m", stepSeconds: 60 }, held, fires: [] });
});

test("troubles of tenants", async () => {
  const { client } = tenancy;
  await tenancy.createWorkload("broken", { image: { ref: "simulated/missing:1" } });
  await tenancy.createPool("broken", { workloadRef: "broken", size: 1 });
  for (const name of ["one", "two"]) {
    await client.create(configMaps, {
      metadata: { name, namespace: NAMESPACE },
      data: { Dockerfile: "FROM scratch\n" },
    });
    await tenancy.createWorkload(name, { image: { dockerfile: "Dockerfile", context: { configMapRef: { name } } } });
  }
  const botTokenSecretRef = { name: "bad", key: "token" };
  await createTrigger("bad-bot", { type: "messenger", config: { botTokenSecretRef, apiBaseUrl: messengerUrl } });
  await createTrigger("bad-hook", { workloadRef: "closed", config: { path: "/bad-hook" } });
  const schedule = "0 0 1 1 *";
  await createTrigger("tick", { type: "cron", config: { schedule } });
  for (const name of ["bad-hook", "tick"]) await untilTrigger(name, "Active");

  // No operator sees these claims for longer than a claim from a pool may take. The leader goes on first and so still
  // leads. The other one is ended below, and its figures with it.
  await untilFull();
  const leads = operators.map((_, index) => scrape(targets().slice(index, index + 1)));
  const leading = (await Promise.all(leads)).findIndex((told) => figureOf(told, "tenancy_operator_leading") === 1);
  for (const { program } of operators) program.child.kill("SIGSTOP");
  const names = await all(5, async (index) => (await tenancy.createClaim(`late${index}`, "app")).metadata.name);
  const lateFrom = Date.now();
  await tenancy.until("the claims to be late", () => Date.now() - lateFrom > 2500);
  const leader = operators[leading];
  const follower = 1 - leading;
  leader?.program.child.kill("SIGCONT");
  for (const name of names) await tenancy.untilClaim(name, { phase: "Active", source: "pool" });
  operators[follower]?.program.child.kill("SIGCONT");

  const kept = await tenancy.createClaim("alice", "keeps");
  await tenancy.untilClaim(kept.metadata.name, { phase: "Active" });
  await tenancy.deleteClaim(kept.metadata.name);
  const cluster = await loadClusterConfig({ kubeconfigPath: tenancy.cluster.kubeconfigPath });
  const place = { kind: "volume", access: "direct" } as const;
  const store = openStore({ place, mayBeEmpty: false }, { client, cluster, namespace: NAMESPACE });
  await save(store.archives, "x".repeat(950), { tenantId: "bob", workloadRef: "keeps" });
  store.close();
  space.freeBytes = 50;

  // An occurrence that an edge has given back, and that no other one took in time.
  const tick = { namespace: NAMESPACE, name: "tick" };
  const beat = "2026-01-01T00:00:00.000Z";
  const state = { running: { [beat]: { by: "", beat } } };
  await client.patch(triggers, tick, { type: "merge", subresource: "status", body: { status: { state } } });
  const config = { schedule, catchUpSeconds: 61 };
  await client.patch(triggers, tick, { type: "merge", body: { spec: { config } } });

  // Jobs whose pods end without a word.
  for (const name of ["one", "two"]) {
    const job = await tenancy.until(`the build of ${name}`, async () => {
      const { items } = await client.list(jobs, { namespace: BUILDS });
      return items.find(({ metadata }) => metadata.labels?.["tenancy.dev/workload"] === name);
    });
    const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
    const times = { lastTransitionTime: now, lastProbeTime: now };
    const reason = "BackoffLimitExceeded";
    const conditions = ["FailureTarget", "Failed"].map((type) => ({ type, status: "True", reason, ...times }));
    const status = { startTime: job.metadata.creationTimestamp, conditions, failed: 1, uncountedTerminatedPods: {} };
    const reference = { namespace: BUILDS, name: job.metadata.name };
    await client.patch(jobs, reference, { type: "merge", subresource: "status", body: { status } });
  }
  await client.create(configMaps, {
    metadata: { name: "three", namespace: NAMESPACE },
    data: { Dockerfile: "FROM x\n" },
  });
  await tenancy.createWorkload("three", {
    image: { dockerfile: "Dockerfile", context: { configMapRef: { name: "three" } } },
  });

  async function fail(times: number): Promise<void> {
    const [claimed, visited, delivered] = await Promise.all([
      all(times, (index) => claim(`c${times}-${index}`, "broken")),
      all(times, (index) => visit(`v${index}`, "closed")),
      all(times, (index) => deliver("/bad-hook", index)),
    ]);
    for (const status of [...claimed, ...visited, ...delivered]) assert.ok(status >= 500, `${status}`);
  }
  await fail(1);
  await restart(follower);
  const begun = await scrape();
  await fail(12);
  await restart(follower);
  const bad = await untilTold("all troubles", (told) => {
    const has = (name: string, ...labels: string[]) => figureOf(told, name, ...labels) > 0;
    return (
      has("tenancy_release_failed_oldest_timestamp_seconds") &&
      has("tenancy_gateway_events_total", 'result="missed"') &&
      has("tenancy_gateway_triggers", 'phase="Error"') &&
      has("tenancy_builds_under_way") &&
      figureOf(told, "tenancy_build_failures_total", 'reason="BuildLost"') >= 2 &&
      figureOf(told, "tenancy_snapshot_store_bytes", 'workload="keeps"') === 950 &&
      isWhole(told)
    );
  });
  courses.push({
    name: "troubles of tenants",
    ...{ step: "1m", stepSeconds: 60 },
    held: [
      { scrape: healthy, steps: 5 },
      { scrape: begun, steps: 1 },
      { scrape: bad, steps: 120 },
    ],
    fires: [
      ...[
        "TenancyClaimsFailing",
        "TenancyClaimsSlow",
        "TenancyPoolEmpty",
        "TenancyBuildsStuck",
        "TenancyBuildsFailing",
      ],
      ...["TenancyReleaseFailed", "TenancyStoreNearlyFull", "TenancyWorkloadLimitNear", "TenancyEdgeErrors"],
      ...["TenancyFrontDoorErrors", "TenancyBotNotPolled", "TenancyCronMissed", "TenancyTriggerError"],
      ...["TenancyEventsFailing", "TenancyRestarting"],
    ],
  });
});

/** Ends an operator and starts it anew, in the pod that it was in. */
async function restart(index: number): Promise<void> {
  await operators[index]?.program.stop();
  operators[index] = await startOperator(operatorEnv);
}

test("certificates that are not renewed", async () => {
  const { client } = tenancy;
  const header = { name: "authorization", valueFrom: { secretKeyRef: { name: "good", key: "token" } } };
  const credentials = [{ domain: "api.example.com", headers: [header] }];
  await tenancy.createWorkload("outward", {
    network: { access: "restricted", allowlist: ["api.example.com"], credentials },
  });
  const told = await untilTold(
    "both certificates",
    (one) =>
      figureOf(one, "tenancy_certificate_end_timestamp_seconds", 'use="egress"') > 0 &&
      figureOf(one, "tenancy_certificate_end_timestamp_seconds", 'use="snapshots"') > 0,
  );
  await client.delete(workloads, { namespace: NAMESPACE, name: "outward" });
  const held = [{ scrape: only(told, (name) => /^up$|_certificate_/.test(name)), steps: 60 }];
  const fires = ["TenancyCertificateNotRenewed", "TenancyCertificateEnds"];
  courses.push({ name: "no renewal for thirty days", ...{ step: "12h", stepSeconds: 12 * 3600 }, held, fires });
});

test("a second operator that leads, and cannot do its work", async () => {
  const { client } = tenancy;
  const namespace = "other";
  await client.create(namespaces, { metadata: { name: namespace } });
  // Without an image for the helper pod.
  const other = await startOperator({ TENANCY_NAMESPACE: namespace });
  // Prometheus finds it where the others are: no two that watch one namespace lead at once.
  const both = () => [...targets(), { ...OPERATOR, pod: "operator-9", url: other.url }];
  const keep = (name: string) => /^up$|_leading$|_reconcile_/.test(name);
  const failures = (told: Scrape) =>
    figureOf(told, "tenancy_operator_reconcile_seconds_count", 'controller="helper"', 'outcome="failed"');
  let made = 0;
  const makeAnother = () =>
    client.create(workloads, {
      metadata: { name: `keeps-${made++}`, namespace },
      spec: { image: { ref: "simulated/hello:1" }, filesystem: { overlayDirs: ["/data"] } },
    });
  await makeAnother();
  const first = await untilTold("the first failure", (told) => failures(told) > 0, both);
  const last = await tenancy.until("more of them", async () => {
    await makeAnother();
    const told = await scrape(both());
    return failures(told) > failures(first) + 5 && figureOf(told, "tenancy_operator_leading") === 2 && told;
  });
  courses.push({
    name: "two leaders",
    ...{ step: "1m", stepSeconds: 60 },
    held: [
      { scrape: only(first, keep), steps: 1 },
      { scrape: only(last, keep), steps: 30 },
    ],
    fires: ["TenancySeveralLeaders", "TenancyReconcilesFail"],
  });
  await other.program.stop();
});

test("of several Deployments and installations one is gone, while others run", async () => {
  const course = { step: "1m", stepSeconds: 60 };
  const both = [...targets(), ...targets().map((target) => ({ ...target, namespace: "second" }))];
  const split = ["tenancy-gateway", "tenancy-proxy"].map((app) => ({ ...EDGE, app, pod: app, url: edge.metricsUrl }));
  const up = async (of: Target[]) => only(await scrape(of), (name) => name === "up");
  const well = { scrape: await up([...both, ...split]), steps: 30 };
  const isDown = (which: (target: Target) => boolean) =>
    up([...both, ...split].map((target) => (which(target) ? { ...target, url: undefined } : target)));

  courses.push(
    {
      ...{ name: "one pod of two is gone", ...course, fires: [] },
      held: [well, { scrape: await isDown(({ pod }) => pod === "operator-0"), steps: 30 }],
    },
    ...(await Promise.all(
      split.map(async ({ app }) => ({
        ...{ name: `no ${app}`, ...course, fires: ["TenancyEdgeDown"] },
        held: [well, { scrape: await isDown((target) => target.app === app), steps: 30 }],
      })),
    )),
    {
      ...{ name: "no pod of a Deployment is found", ...course, fires: ["TenancyEdgeDown"] },
      held: [well, { scrape: await up(both), steps: 30 }],
    },
    {
      ...{ name: "no second installation", ...course, fires: ["TenancyOperatorDown", "TenancyEdgeDown"] },
      held: [well, { scrape: await isDown(({ namespace }) => namespace === "second"), steps: 30 }],
    },
    {
      ...{ name: "nothing is scraped", ...course, fires: ["TenancyOperatorDown", "TenancyEdgeDown"] },
      held: [{ scrape: await up([]), steps: 30 }],
    },
  );
});

test("the store, the API server and the programs go one after the other", async () => {
  const course = { step: "1m", stepSeconds: 60 };
  await helper.stop();
  const unreachable = await untilTold("a store that does not answer", ({ samples }) =>
    [...samples].some(([series, value]) => series.startsWith("tenancy_snapshot_store_reachable") && value === 0),
  );
  const ofStore = only(unreachable, (name) => /^up$|_snapshot_/.test(name));
  courses.push({
    ...{ name: "no store", ...course, held: [{ scrape: ofStore, steps: 30 }] },
    fires: ["TenancyStoreUnreachable"],
  });

  await tenancy.cluster.apiServer.kill();
  const alone = await untilTold(
    "nobody to lead",
    (told) =>
      figureOf(told, "tenancy_operator_leading") === 0 &&
      figureOf(told, "tenancy_operator_cluster_contact") === 0 &&
      figureOf(told, "tenancy_edge_cluster_contact") === 0,
  );
  const ofContact = only(alone, (name) => /^up$|_leading$|_contact$/.test(name));
  courses.push({
    ...{ name: "no API server", ...course, held: [{ scrape: ofContact, steps: 30 }] },
    fires: ["TenancyNoLeader", "TenancyWatchStale"],
  });

  const gone = await scrape(targets().map((target) => ({ ...target, url: undefined })));
  courses.push({
    ...{ name: "no programs", ...course, held: [{ scrape: gone, steps: 30 }] },
    fires: ["TenancyOperatorDown", "TenancyEdgeDown"],
  });
});

test("each alert fires in its course and in no other, by the rules as they are", async () => {
  const fired = new Set(courses.flatMap(({ fires }) => fires));
  const expected = rules.map(({ alert }) => alert);
  assert.equal([...fired].sort(), [...expected].sort());
  await testRules(courses);
});

test.run();
