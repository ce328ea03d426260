// Sandboxes by E2B's own SDK, in real containers.
import { AuthenticationError, Sandbox, SandboxError, SandboxNotFoundError, Template } from "e2b";
import * as assert from "uvu/assert";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { KEY, type RestEdge, startRestEdge } from "../../cluster/rest/rest-edge.ts";
import { eventually } from "../../eventually.ts";
import { lifeSuite } from "../snapshots/life-suite.ts";
import { createCalledMethods } from "./called-methods.ts";

const LIMIT_MS = 180_000;
const idle = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done";
const resources = { vcpus: 1, memoryMb: 128, diskGb: 1 };
const entrypoint = { cmd: "/bin/busybox", args: ["sh", "-c", idle], start: "OnClaim" as const };
const spec: Partial<WorkloadSpec> = {
  ...{ entrypoint, resources },
  // Nothing listens there.
  network: { ports: [8080] },
  health: { readyWhen: "Running" },
  filesystem: { overlayDirs: ["/data"], checkpointSeconds: 0 },
};

const called = createCalledMethods();
let edge: RestEdge;
let options: { apiKey: string; apiUrl: string; sandboxUrl: string; requestTimeoutMs: number; retries: number };

const test = lifeSuite("sandboxes by E2B's SDK", {
  name: "e2b-control",
  async prepare(life) {
    called.follow("Sandbox", Sandbox);
    called.follow("Template", Template);
    const started = startRestEdge("bun", { KUBECONFIG: life.cluster.kubeconfigPath });
    await life.createWorkload("base", spec);
    await life.createWorkload("forgets", { entrypoint, resources, filesystem: { overlayDirs: [] } });
    await life.createPool("base", "base", 2);
    edge = await started;
    const { url } = edge.process;
    options = { apiKey: KEY, apiUrl: `${url}/e2b`, sandboxUrl: url, requestTimeoutMs: LIMIT_MS, retries: 10 };
  },
});
test.after(async () => {
  await edge?.stop();
});

interface Command {
  readonly exitCode?: number;
  readonly stdout?: string;
}

/** Runs a script in a sandbox by the REST API. */
async function run({ sandboxId }: { sandboxId: string }, script: string): Promise<string> {
  const [workload, tenant] = sandboxId.split(/--/);
  const { status, text, json } = await edge.call("POST /api/v1/tenants/{id}/instances/{workload}/processes", {
    path: `/api/v1/tenants/${tenant}/instances/${workload}/processes`,
    body: { command: ["sh", "-c", script] },
  });
  assert.is(status, 200, text);
  const { exitCode, stdout = "" } = json as Command;
  assert.is(exitCode, 0, text);
  return stdout;
}

async function listed(query: { metadata?: Record<string, string>; state?: ("running" | "paused")[] }) {
  const pages = Sandbox.list({ ...options, query, limit: 1 });
  called.follow("SandboxPaginator", pages);
  const found = [];
  while (pages.hasNext) found.push(...(await pages.nextItems()));
  return found;
}

async function fails(work: Promise<unknown>, is: new (message: string) => Error, message: RegExp): Promise<void> {
  const error = await work.then(
    () => assert.unreachable("it did not fail"),
    (failure: unknown) => failure,
  );
  assert.instance(error, is);
  assert.match(String(error), message);
}

test("a sandbox is created, found, paused with its files, resumed and killed", async ({ life }) => {
  const metadata = { user: "a b&c=ü", app: "prod" };
  const envs = { GREETING: "hello" };
  const sandbox = await Sandbox.create("base", { ...options, metadata, envs, timeoutMs: 600_000 });
  assert.match(sandbox.sandboxId, /^base--e2b-[a-z2-7]{16}$/);
  const info = await sandbox.getInfo();
  assert.is(info.templateId, "base");
  assert.is(info.state, "running");
  assert.equal(info.metadata, metadata);
  assert.equal([info.cpuCount, info.memoryMB], [1, 128]);
  assert.equal(
    (await listed({ metadata: { user: "a b&c=ü" } })).map((one) => one.sandboxId),
    [sandbox.sandboxId],
  );
  assert.equal(await listed({ metadata: { user: "other" } }), []);

  await sandbox.setTimeout(300_000);
  const sooner = await sandbox.getInfo();
  assert.ok(sooner.endAt < info.endAt, `${sooner.endAt.toISOString()} is not before ${info.endAt.toISOString()}`);

  await run(sandbox, "echo kept > /data/file");
  assert.is(await sandbox.pause(), true);
  assert.is(await sandbox.pause(), false);
  const paused = await sandbox.getInfo();
  assert.equal([paused.state, paused.metadata], ["paused", metadata]);
  assert.equal(
    (await listed({ state: ["paused"] })).map((one) => one.sandboxId),
    [sandbox.sandboxId],
  );
  assert.equal(await listed({ state: ["running"] }), []);
  await fails(sandbox.setTimeout(60_000), SandboxNotFoundError, /not found/);

  const again = await Sandbox.connect(sandbox.sandboxId, { ...options, timeoutMs: 600_000 });
  assert.is(await run(again, "cat /data/file"), "kept\n");
  assert.equal((await again.getInfo()).metadata, metadata);
  assert.is(await again.kill(), true);
  assert.is(await again.kill(), false);
  await fails(Sandbox.getInfo(sandbox.sandboxId, options), SandboxNotFoundError, /not found/);
  await fails(Sandbox.connect(sandbox.sandboxId, options), SandboxNotFoundError, /not found/);
  assert.equal(await listed({}), []);
  const [workloadRef = "", tenantId = ""] = sandbox.sandboxId.split("--");
  const kept = await life.store.look(
    { tenantId, workloadRef },
    { signal: AbortSignal.timeout(LIMIT_MS), timeoutMs: LIMIT_MS },
  );
  assert.is(kept.state, "none");
});

test("a fork has the files and variables of its origin, and ends alone", async () => {
  const metadata = { user: "forker" };
  const origin = await Sandbox.create("base", { ...options, metadata, envs: { WHO: "origin" }, timeoutMs: 600_000 });
  await run(origin, "echo first > /data/file");
  const forks = await origin.fork({ count: 2, timeoutMs: 600_000 });
  await run(origin, "echo second > /data/file");
  const ids = new Set([origin.sandboxId]);
  for (const fork of forks) {
    if (fork instanceof Error) throw fork;
    ids.add(fork.sandboxId);
    assert.is(await run(fork, 'cat /data/file; echo "$WHO"'), "first\norigin\n");
    assert.equal((await fork.getInfo()).metadata, metadata);
    assert.is(await fork.kill(), true);
  }
  assert.is(ids.size, 3);
  assert.is(await run(origin, "cat /data/file"), "second\n");
  assert.is(await origin.kill(), true);
});

test("a snapshot outlives its sandbox, and is a template until it is deleted", async () => {
  const origin = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
  await run(origin, "echo saved > /data/file");
  const named = await origin.createSnapshot({ name: "v1" });
  const other = await origin.createSnapshot();
  assert.is(named.snapshotId, `${origin.sandboxId}:v1`);
  await fails(origin.createSnapshot({ name: "v1" }), SandboxError, /409: .*v1/);
  assert.equal(await snapshotsOf({ sandboxId: origin.sandboxId }), [named.snapshotId, other.snapshotId].sort());
  assert.is(await Sandbox.deleteSnapshot(other.snapshotId, options), true);
  assert.is(await Sandbox.deleteSnapshot(other.snapshotId, options), false);

  assert.is(await origin.kill(), true);
  assert.is(await Sandbox.kill(origin.sandboxId, options), false);
  assert.equal(await snapshotsOf({}), [named.snapshotId]);
  const next = await Sandbox.create(named.snapshotId, { ...options, timeoutMs: 600_000 });
  assert.is(await run(next, "cat /data/file"), "saved\n");
  assert.is(await next.kill(), true);
  assert.is(await Sandbox.deleteSnapshot(named.snapshotId, options), true);
  assert.equal(await snapshotsOf({}), []);
  await fails(Sandbox.create(named.snapshotId, options), SandboxError, /404: /);
});

test("a sandbox of a tenant with a name keeps its files when it is killed", async () => {
  const given = { ...options, metadata: { tenant: "alice", app: "mail" }, timeoutMs: 600_000 };
  const sandbox = await Sandbox.create("base", given);
  assert.is(sandbox.sandboxId, "base--alice");
  assert.is((await Sandbox.create("base", given)).sandboxId, sandbox.sandboxId);
  await run(sandbox, "echo mine > /data/file");
  assert.is(await sandbox.kill(), true);
  const again = await Sandbox.create("base", given);
  assert.is(await run(again, "cat /data/file"), "mine\n");
  assert.equal(
    (await listed({ metadata: { tenant: "alice" } })).map((one) => one.sandboxId),
    [sandbox.sandboxId],
  );
  await again.pause();
});

test("what cannot be done is an error that says so", async () => {
  await fails(Sandbox.create("missing", options), SandboxError, /404: .*missing/);
  await fails(Sandbox.create("base", { ...options, apiKey: "wrong" }), AuthenticationError, /wrong API key/);
  await fails(
    Sandbox.create("base", { ...options, allowInternetAccess: true, mcp: { a: {} } as never }),
    SandboxError,
    /501: mcp/,
  );
  const forgetful = await Sandbox.create("forgets", { ...options, timeoutMs: 600_000 });
  await fails(forgetful.pause(), SandboxError, /400: .*overlayDirs/);
  await fails(forgetful.createSnapshot(), SandboxError, /400: .*overlayDirs/);
  await fails(forgetful.updateNetwork({ allowInternetAccess: false }), SandboxError, /501: /);
  assert.is(await forgetful.kill(), true);
});

test("templates, addresses and older names of methods", async () => {
  assert.equal([await Template.exists("base", options), await Template.exists("missing", options)], [true, false]);
  assert.is(await Template.aliasExists("base", options), true);
  const sandbox = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
  called.follow("Sandbox", sandbox);
  const { sandboxId } = sandbox;
  assert.is(await sandbox.isRunning(), true);
  assert.match(sandbox.getHost(3000), new RegExp(`^3000-${sandboxId}\\.`));
  const headers = { "e2b-sandbox-id": sandboxId };
  const upload = { method: "POST", headers: { ...headers, "content-type": "application/octet-stream" }, body: "text" };
  assert.is((await fetch(await sandbox.uploadUrl("/data/file"), upload)).status, 200);
  assert.is(await (await fetch(await sandbox.downloadUrl("/data/file"), { headers })).text(), "text");
  assert.is((await Sandbox.getFullInfo(sandboxId, options)).sandboxId, sandboxId);
  assert.is(await sandbox.betaPause(), true);
  await (await Sandbox.connect(sandboxId, options)).kill();
});

test("metrics follow an allocation and a busy loop, and a paused sandbox has none", async ({ life }) => {
  const MIB = 2 ** 20;
  await life.createWorkload("roomy", { ...spec, resources: { ...resources, memoryMb: 512 } });
  const sandbox = await Sandbox.create("roomy", { ...options, timeoutMs: 600_000 });
  const now = async () => {
    const [point, ...more] = await sandbox.getMetrics();
    assert.equal(more, []);
    assert.ok(point);
    return point;
  };
  const background = { background: true, timeoutMs: 0 } as const;

  await eventually(async () => (await now()).cpuUsedPct < 10);
  const before = await now();
  assert.equal([before.cpuCount, before.memTotal], [1, 512 * MIB]);
  // It holds what may be the end of its input.
  const script = `{ head -c ${200 * MIB} /dev/zero; sleep 1000; } | tail -c ${200 * MIB}`;
  const holder = await sandbox.commands.run(script, background);
  await eventually(async () => (await now()).memUsed >= before.memUsed + 195 * MIB);
  const grown = ((await now()).memUsed - before.memUsed) / MIB;
  assert.ok(grown < 220, `${grown} MiB for 200`);
  await holder.kill();
  await eventually(async () => (await now()).memUsed < before.memUsed + 20 * MIB);
  // What the kernel can drop is not used.
  await run(sandbox, `head -c ${100 * MIB} /dev/zero > /data/file; cat /data/file > /dev/null`);
  const cached = await now();
  assert.ok(cached.memCache >= before.memCache + 90 * MIB, `${cached.memCache - before.memCache} bytes`);
  assert.ok(cached.memUsed < before.memUsed + 50 * MIB, `${cached.memUsed - before.memUsed} bytes`);

  const loop = await sandbox.commands.run("while :; do :; done", background);
  await eventually(async () => (await now()).cpuUsedPct > 20);
  await loop.kill();
  await eventually(async () => (await now()).cpuUsedPct < 10);

  const hourAgo = new Date(Date.now() - 3_600_000);
  assert.equal(await sandbox.getMetrics({ end: hourAgo }), []);
  assert.is((await sandbox.getMetrics({ start: hourAgo })).length, 1);
  await sandbox.pause();
  assert.equal(await sandbox.getMetrics(), []);
  assert.is((await sandbox.getInfo()).state, "paused");
  assert.is(await sandbox.kill(), true);
  await fails(sandbox.getMetrics(), SandboxNotFoundError, /not found/);
});

test("each method that docs/reference/e2b.md says works was called", () => {
  called.assertAllCalled("Sandbox", "SandboxPaginator", "SnapshotPaginator", "Template");
});

async function snapshotsOf(query: { sandboxId?: string }): Promise<string[]> {
  const pages = Sandbox.listSnapshots({ ...options, ...query });
  called.follow("SnapshotPaginator", pages);
  const found = [];
  while (pages.hasNext) found.push(...(await pages.nextItems()));
  return found.map(({ snapshotId }) => snapshotId).sort();
}

test.run();
