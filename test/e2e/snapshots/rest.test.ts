// @limit 2400
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { runPageCommands } from "../../page-commands.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { clusterOfFile, leaveCluster } from "../cluster-of-file.ts";

const NAME = clusterOfFile(`e2e-snapshots-rest-${process.pid}`);
const test = suite("files over the REST API, on real containers");
let stack: Stack;
let isUp = false;
let instance: string;
/** Of tenant ann's files, when they were last saved. */
let digest: string;
/** The record of what was last saved for her. */
let saved: Snapshot;

interface Snapshot {
  tenantId: string;
  workloadRef: string;
  path: string;
  sizeBytes: number;
  sha256: string;
  createdAt: string;
}

const spec = {
  image: { ref: "localhost/tenancy-hello:1" },
  resources: { memoryMb: 64 },
  filesystem: {
    overlayDirs: ["/data"],
    // A release is held up while that file is there.
    preSave: { command: ["/bin/sh", "-c", "while [ -e /data/hold ]; do sleep 0.1; done"], timeoutSeconds: 120 },
  },
  entrypoint: {
    cmd: "/bin/sh",
    args: ["-c", "trap 'exit 0' TERM; ls -A /data > /data/first-act; sleep 36000 & wait $!"],
  },
};
const FILL = `set -e; cd /data; mkdir -p notes/empty; echo 'buy milk' > notes/list; chmod 640 notes/list
head -c 300000 /dev/urandom > random; ln -s notes/list link; ln notes/list hard; touch -d @1000000001 notes/list`;
// Times of symlinks are not kept (docs/decisions/snapshots.md#busybox-tar-has-gaps).
const DIGEST = `cd /data; { find . ! -name first-act ! -type l | sort | xargs stat -c '%n %a %Y %F' | grep -v '^\\. '
find . -type f ! -name first-act | sort | xargs sha256sum; readlink link; } | sha256sum`;

test.before(async () => {
  // One that is up already is left up by npm start, and so keeps what is on its volumes.
  await upLocalCluster({ name: NAME });
  await start();
});

async function start(): Promise<void> {
  stack = await startStack(NAME);
  isUp = true;
}

async function stop(): Promise<void> {
  isUp = false;
  assert.is(await stack.interrupt(), 0, stack.output());
}

async function claim(
  tenant: string,
  { resume, workload = "keeper" }: { resume: boolean | { version: string }; workload?: string },
) {
  const { status, body } = await stack.call("POST", `/tenants/${tenant}/claim`, { workload, resume });
  assert.is(status, 201, JSON.stringify(body));
  instance = String(body.instanceId);
  return String(body.source);
}

/** @returns what became of the files, where the release was waited for */
async function release(tenant: string, query = "?wait=true"): Promise<unknown> {
  const { status, body } = await stack.call("POST", `/tenants/${tenant}/release${query}`, { workload: "keeper" });
  assert.is(status, 200, JSON.stringify(body));
  return (body as { files?: string }).files;
}

async function run(script: string): Promise<string> {
  const command = ["/bin/sh", "-c", script];
  const { status, body } = await stack.call("POST", `/instances/${instance}/exec`, { command });
  assert.is(status, 200, JSON.stringify(body));
  assert.is(body.exitCode, 0, JSON.stringify(body));
  return String(body.stdout);
}

async function list(path = "/snapshots"): Promise<Snapshot[]> {
  const { status, body } = await stack.call("GET", path);
  assert.is(status, 200, JSON.stringify(body));
  return body as unknown as Snapshot[];
}

const erase = (tenant: string) => stack.call("DELETE", `/tenants/${tenant}/snapshots/keeper`);
/**
 * Names that the program of the pod that was claimed last found as its first act, beside the file that it wrote them
 * to.
 */
const foundAtStart = async () =>
  (await run("until [ -s /data/first-act ]; do sleep 0.05; done; cat /data/first-act"))
    .split("\n")
    .filter((name) => name !== "" && name !== "first-act");

async function eventually(what: string, condition: () => Promise<boolean>): Promise<void> {
  await waitUntil(condition, { what, limitMs: 120_000, intervalMs: 100 });
}

test("there are no snapshots before a workload keeps files", async () => {
  assert.equal(await list(), []);
  assert.is((await stack.call("GET", "/workloads/keeper/snapshots")).status, 404);
  assert.is((await erase("ann")).status, 404);
});

test("what a tenant has written is saved at the release, and listed as it is on the volume", async () => {
  const created = await stack.call("POST", "/workloads", { name: "keeper", spec });
  assert.is(created.status, 201, JSON.stringify(created.body));
  assert.is(await claim("ann", { resume: true }), "cold");
  assert.equal(await foundAtStart(), []);
  await run(FILL);
  digest = await run(DIGEST);
  assert.equal(await list(), []);
  assert.is(await release("ann"), "saved");

  const [record, ...others] = await list();
  assert.ok(record);
  assert.equal(others, []);
  assert.equal(await list("/workloads/keeper/snapshots"), [record]);
  assert.equal(await list("/workloads/hello/snapshots"), []);
  const volume = join(dirname(stack.kubeconfigPath), "volumes");
  const archive = readFileSync(join(volume, record.path));
  const { createdAt, ...rest } = record;
  assert.equal(rest, {
    tenantId: "ann",
    workloadRef: "keeper",
    path: "/snapshots/ann/keeper.tar.gz",
    sizeBytes: archive.length,
    sha256: createHash("sha256").update(archive).digest("hex"),
  });
  assert.is(new Date(createdAt).toISOString(), createdAt);
  assert.ok(archive.length > 300_000);
  const { mode, uid, gid } = statSync(join(volume, "snapshots"));
  assert.equal([mode & 0o777, uid, gid], [0o700, 65532, 65532]);
  saved = record;
});

test("a claim with resume has the files before the program's first act", async () => {
  assert.is(await claim("ann", { resume: true }), "cold+data");
  assert.equal((await foundAtStart()).sort(), ["hard", "link", "notes", "random"].sort());
  assert.is(await run(DIGEST), digest);
  assert.equal(await list(), [saved]);
});

test("another tenant finds nothing, and has a snapshot of its own", async () => {
  assert.is(await claim("bob", { resume: true }), "cold");
  assert.equal(await foundAtStart(), []);
  await run("echo mine > /data/bobs");
  assert.is(await release("bob"), "saved");
  assert.is(await claim("bob", { resume: true }), "cold+data");
  assert.is((await stack.call("POST", `/instances/${instance}/destroy`)).status, 200);
  assert.is(await release("bob"), "discarded");
  assert.equal(
    (await list()).map(({ path }) => path),
    ["/snapshots/ann/keeper.tar.gz", "/snapshots/bob/keeper.tar.gz"],
  );
  assert.is((await erase("bob")).status, 200);
  assert.equal(await list(), [saved]);
});

test("a pool's pod has the files when the claim is answered", async () => {
  await release("ann");
  const pool = join(dirname(stack.kubeconfigPath), "keeper-pool.json");
  const body = { apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyPool", metadata: { name: "keeper" } };
  writeFileSync(pool, JSON.stringify({ ...body, spec: { workloadRef: "keeper", size: 1 } }));
  await stack.kubectl("apply", "-f", pool);
  await stack.kubectl("wait", "tenancypool/keeper", "--for=jsonpath={.status.phase}=Ready", "--timeout=120s");
  assert.is(await claim("ann", { resume: true }), "pool+data");
  assert.is(await run(DIGEST), digest);
  await stack.kubectl("delete", "tenancypool", "keeper", "--timeout=120s");
  await release("ann");
  const [record, ...others] = await list();
  assert.ok(record);
  assert.equal(others, []);
  saved = record;
});

test("a claim without resume starts empty, and the archive before stays", async () => {
  assert.is(await claim("ann", { resume: false }), "cold");
  assert.equal(await foundAtStart(), []);
  assert.equal(await list(), [saved]);
});

test("resume on that claim is refused, and after its release the files before it can be gone back to", async () => {
  const refused = await stack.call("POST", "/tenants/ann/claim", { workload: "keeper", resume: true });
  assert.is(refused.status, 409, JSON.stringify(refused.body));
  assert.match(refused.body.error ?? "", 'is using workload "keeper" without the saved files: release it with POST');
  assert.equal(await foundAtStart(), [], "it goes on");
  await release("ann");
  const { body } = await stack.call("GET", "/snapshots?versions=true");
  const [newest, older, ...others] = body as unknown as (Snapshot & { version?: string })[];
  assert.equal([newest?.version, older?.sha256, others], [undefined, saved.sha256, []]);
  assert.is(older?.version, saved.sha256.slice(0, 16));

  assert.is(await claim("ann", { resume: { version: older?.version ?? "" } }), "cold+data");
  assert.is(await run(DIGEST), digest);
  await release("ann");
  assert.is(await claim("ann", { resume: true }), "cold+data");
  assert.is(await run(DIGEST), digest);
  await release("ann");
  const unknown = { workload: "keeper", resume: { version: "0123456789abcdef" } };
  const failed = await stack.call("POST", "/tenants/ann/claim", unknown);
  assert.is(failed.status, 409, JSON.stringify(failed.body));
  assert.match(failed.body.error ?? "", /there is no version 0123456789abcdef of it: there are .* \(the newest\), /);
  assert.is(await claim("ann", { resume: false }), "cold");
});

test("a snapshot can be erased while its claim is Active, and the next release saves anew", async () => {
  const { status, body } = await erase("ann");
  assert.is(status, 200, JSON.stringify(body));
  assert.equal(body, { status: "deleted", tenantId: "ann", workload: "keeper" });
  assert.equal(await list(), []);
  assert.is((await erase("ann")).status, 404);
  await run("echo anew > /data/anew; touch /data/hold");
  await release("ann", "");
  const refused = await erase("ann");
  assert.is(refused.status, 409, JSON.stringify(refused.body));
  assert.match(refused.body.error ?? "", "delete again when it has finished");
  await stack.kubectl("exec", instance, "--", "rm", "/data/hold");
  await eventually("the release to end", async () => {
    const { claims } = (await stack.call("GET", "/tenants/ann")).body as unknown as { claims: unknown[] };
    return claims.length === 0;
  });
  const [record] = await list();
  assert.is.not(record?.sha256 ?? saved.sha256, saved.sha256);
});

test("an erased tenant starts from nothing", async () => {
  assert.is((await erase("ann")).status, 200);
  assert.equal(await list(), []);
  assert.is(await claim("ann", { resume: true }), "cold");
  assert.equal(await foundAtStart(), []);
});

test("while the helper pod is replaced, a list is whole or an error", async () => {
  await run(FILL);
  digest = await run(DIGEST);
  await release("ann");
  const before = await list();
  assert.is(before.length, 1);
  const uidOf = () => stack.kubectl("get", "pod", "tenancy-snapshots", "-o", "jsonpath={.metadata.uid}");
  const uid = await uidOf();
  const deleted = stack.kubectl("delete", "pod", "tenancy-snapshots", "--wait=false");
  const seen = new Map<number, number>();
  await eventually("the helper pod to be replaced", async () => {
    // Asked first: a list of the old one says nothing of the new one, which may not run yet.
    const isNew = (await uidOf().catch(() => uid)) !== uid;
    const { status, body } = await stack.call("GET", "/snapshots");
    seen.set(status, (seen.get(status) ?? 0) + 1);
    if (status === 200) assert.equal(body, before);
    else assert.is(status, 503, `${JSON.stringify(body)}\n${stack.output()}`);
    // The second: its container has ended, and the pod does not say so yet.
    if (status === 503) assert.match(body.error ?? "", /helper pod tenancy-snapshots|cannot be reached now; try again/);
    return status === 200 && isNew;
  });
  await deleted;
  console.log(`note: answers while the helper pod was replaced: ${JSON.stringify(Object.fromEntries(seen))}`);
});

test("files are given to another tenant, rolled back, downloaded and uploaded", async () => {
  const of = (tenant: string, what: string) => `/tenants/${tenant}/snapshots/keeper/${what}`;
  const copied = await stack.call("POST", of("ann", "copy"), { tenantId: "fork" });
  assert.is(copied.status, 201, JSON.stringify(copied.body));
  const events = ["get", "events", "--field-selector", "reason=SnapshotCopied", "-o", "jsonpath={.items[*].message}"];
  await eventually("the Event to be there", async () => /ann.*fork/.test(await stack.kubectl(...events)));
  assert.is(await claim("fork", { resume: true }), "cold+data");
  await run("echo of the fork > /data/fork");
  const forked = await run(DIGEST);
  assert.is((await stack.call("POST", of("fork", "rollback"), { version: "0".repeat(16) })).status, 409, "in use");
  await release("fork");
  await claim("fork", { resume: false });
  await run("echo fresh > /data/fresh");
  await release("fork");

  const { body } = await stack.call("GET", of("fork", "versions"));
  const [newest, older] = body as unknown as { version: string; sha256: string; newest: boolean; kept?: string }[];
  assert.equal([newest?.newest, older?.newest, older?.kept], [true, false, "replaced"]);
  const back = await stack.call("POST", of("fork", "rollback"), { version: older?.version, newest: newest?.version });
  assert.is(back.status, 200, JSON.stringify(back.body));
  assert.is(await claim("fork", { resume: true }), "cold+data");
  assert.is(await run(DIGEST), forked);
  await release("fork");

  const download = await fetch(`${stack.url}/api/v1${of("fork", "archive")}`);
  const archive = new Uint8Array(await download.arrayBuffer());
  const sha256 = createHash("sha256").update(archive).digest("hex");
  assert.equal([download.status, download.headers.get("etag")], [200, `"${sha256}"`]);
  const upload = await fetch(`${stack.url}/api/v1${of("uploaded", "archive")}`, { method: "PUT", body: archive });
  assert.is(upload.status, 201, await upload.text());
  assert.is(await claim("uploaded", { resume: true }), "cold+data");
  assert.is(await run(DIGEST), forked);
  await release("uploaded");
  for (const tenant of ["fork", "uploaded"]) assert.is((await erase(tenant)).status, 200);
});

test("sessions of a backup are there again, and serve, with the files of their last archives", async () => {
  assert.is(await claim("ann", { resume: true }), "cold+data");
  assert.is((await stack.claim("zoe", { workload: "hello" })).status, 201);
  const backup = { folder: mkdtempSync(join(tmpdir(), "backup-")), kubeconfigPath: stack.kubeconfigPath };
  try {
    await runPageCommands("docs/how-to/back-up.md", /> claims\.yaml/, backup);
    await stack.kubectl("delete", "tenancyclaims", "--all", "--timeout=120s");
    await runPageCommands("docs/how-to/back-up.md", /create -f claims\.yaml/, backup);
  } finally {
    rmSync(backup.folder, { recursive: true });
  }
  assert.is(await claim("ann", { resume: true }), "existing");
  assert.is(await run(DIGEST), digest);
  const { body } = await stack.claim("zoe", { workload: "hello" });
  const { endpoint, instanceId, source } = body as { endpoint?: { host: string; port: number } } & typeof body;
  assert.is(source, "existing");
  assert.match(await (await fetch(`http://${endpoint?.host}:${endpoint?.port}/`)).text(), String(instanceId));
  await stack.release("zoe", "hello");
  await release("ann");
});

test("what a deleted workload left stays listed, and can be erased", async () => {
  assert.is((await stack.call("DELETE", "/workloads/keeper")).status, 200);
  await eventually("the workload to go", async () => (await stack.call("GET", "/workloads/keeper")).status === 404);
  assert.is((await stack.call("GET", "/workloads/keeper/snapshots")).status, 404);
  assert.equal(
    (await list()).map(({ tenantId }) => tenantId),
    ["ann"],
  );
  assert.is((await erase("ann")).status, 200);
  assert.equal(await list(), []);
});

test("archives outlive npm start, and the claim of their volume", async () => {
  assert.is((await stack.call("POST", "/workloads", { name: "keeper", spec })).status, 201);
  await claim("ann", { resume: false });
  await run(FILL);
  digest = await run(DIGEST);
  await release("ann");
  const before = await list();
  await stop();
  await start();
  assert.equal(await list(), before);
  await stop();

  await stack.kubectl("delete", "pod", "tenancy-snapshots");
  await stack.kubectl("delete", "pvc", "tenancy-snapshots");
  const phase = ["get", "pv", "tenancy-snapshots-tenancy", "-o", "jsonpath={.status.phase}"];
  await eventually("the volume to be released", async () => (await stack.kubectl(...phase)) === "Released");
  await start();
  assert.is(await claim("ann", { resume: true }), "cold+data");
  assert.is(await run(DIGEST), digest);
  assert.equal(await list(), before);
  await stop();
});

test.after(async () => {
  if (isUp) await stop();
  await leaveCluster(NAME);
});

test.run();
