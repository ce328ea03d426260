import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { persistentVolumeClaims } from "../../../crds/client/built-in-resources.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { annotation } from "../../../crds/labels.ts";
import { openS3Store, openStore } from "../../../crds/snapshots/open-store.ts";
import { createS3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import type { S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { type ObjectServer, startObjectServer } from "../../../scripts/cluster/objects/object-server.ts";
import { parseArguments } from "../../../scripts/snapshots/arguments.ts";
import { call, everything, load, namesOf, save } from "../../unit/snapshots/store-contract.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { type ObjectFaultProxy, startObjectFaults } from "./object-faults.ts";
import { runHelperProgram } from "./simulated-helper.ts";

interface Context {
  folder: string;
  tenancy: Tenancy;
  helper: { stop(): Promise<void> };
  server: ObjectServer;
  faults: ObjectFaultProxy;
  env: Record<string, string>;
  volume: SnapshotStore;
  bucket: S3Store;
  /** Requests that write, but for the probe of the server, as `PUT archives/a/w`. */
  writes: string[];
}

const test = suite<Context>("npm run snapshots -- copy --from volume");
const words = ["copy", "--from", "volume", "--to", "s3://bucket/snapshots"];
/**
 * It starts in a fifth of the time that Node takes to load TypeScript; copy-command.test.ts runs the command on Node.
 */
const bun = join(import.meta.dirname, "../../../node_modules/.bin/bun");
const tenants = Array.from({ length: 12 }, (_, index) => `t${index}`);
const keys = tenants.map((tenantId): SnapshotKey => ({ tenantId, workloadRef: "keeps" }));
const versioned = { tenantId: "versioned", workloadRef: "other" };

test.before(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-copy-"));
  context.tenancy = await startTenancy("copy-volume");
  const { tenancy, folder } = context;
  tenancy.startOperator();
  await tenancy.createWorkload("keeps", { filesystem: { overlayDirs: ["/data"] } });
  context.helper = await runHelperProgram(tenancy, folder);
  const config = await loadClusterConfig({ kubeconfigPath: tenancy.cluster.kubeconfigPath });
  const volume = { place: { kind: "volume", access: "direct" }, mayBeEmpty: false } as const;
  context.volume = openStore(volume, { client: tenancy.client, cluster: config, namespace: NAMESPACE }).archives;

  mkdirSync(join(folder, "objects"));
  context.server = await startObjectServer({ folder: join(folder, "objects"), log: console.log });
  context.faults = await startObjectFaults(context.server.endpoint);
  const { region, accessKeyId, secretAccessKey } = context.server;
  const { endpoint } = context.faults;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket: "bucket", isPathStyle: true, credentials });
  assert.is((await client.send({ method: "PUT", signal: call.signal })).status, 200);
  client.close();
  context.env = {
    ...{ PATH: process.env.PATH ?? "", KUBECONFIG: tenancy.cluster.kubeconfigPath, TENANCY_NAMESPACE: NAMESPACE },
    // No server passes requests on to an address of loopback.
    TENANCY_SNAPSHOT_ACCESS: "direct",
    ...{ TENANCY_SNAPSHOT_ENDPOINT: endpoint, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
  };
  const parsed = parseArguments(words, context.env);
  assert.ok(parsed.command === "copy" && parsed.to.place.kind === "s3");
  context.bucket = openS3Store(parsed.to.place, { env: context.env });
});
test.after(async ({ folder, tenancy, helper, server, faults, bucket }) => {
  bucket?.close();
  await faults?.close();
  await server?.stop();
  await helper?.stop();
  await tenancy?.stop();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});
test.before.each((context) => {
  context.writes = [];
  context.faults.decide = (request) => note(request, context);
});

function note({ method, path }: { method: string; path: string }, { writes }: Context): undefined {
  const at = path.replace(/^\/bucket\/?(snapshots\/)?/, "").replace(/\?.*$/, "");
  if (method !== "GET" && !at.startsWith("probe/")) writes.push(`${method} ${at}`);
}

function start(
  { env }: Context,
  ...more: string[]
): { program: ChildProcess; ended: Promise<{ code: number | null; says: string }> } {
  const program = spawn(bun, ["scripts/snapshots.ts", ...words, ...more], {
    env,
    stdio: ["ignore", "inherit", "pipe"],
  });
  const ended = new Promise<{ code: number | null; says: string }>((resolve, reject) => {
    let says = "";
    program.stderr?.on("data", (chunk: Buffer) => {
      says += chunk;
    });
    program.on("error", reject).on("close", (code) => resolve({ code, says }));
  });
  return { program, ended };
}

test("killed in the middle, it goes on where it was, until the bucket has all with the kinds of versions", async (context) => {
  const { volume, bucket, faults } = context;
  for (const key of keys) await save(volume, randomBytes(300_000).toString("hex"), key);
  const most = { history: 3, replaced: 3 };
  for (const [hour, keep] of ([undefined, "history", "replaced", "history"] as const).entries()) {
    const createdAt = `2026-11-21T0${hour}:00:00.000Z`;
    await save(volume, randomBytes(1000 + hour).toString("hex"), versioned, { keep, most, createdAt });
  }
  const kinds = (await volume.look(versioned, call)).versions.map(({ kept }) => kept);
  assert.equal(kinds, ["history", "replaced", "history"]);

  const killed = start(context);
  let heads = 0;
  faults.decide = (request) => {
    note(request, context);
    if (request.method === "PUT" && request.path.includes("/heads/")) heads += 1;
    if (heads === 3) killed.program.kill("SIGKILL");
    return heads > 3 && request.method !== "GET" ? "refused" : undefined;
  };
  assert.is((await killed.ended).code, null);
  // What it had asked for comes to its end without it.
  await faults.settled();
  const there = (await namesOf(bucket)).length;
  assert.ok(there > 0 && there < keys.length, `${there} of them`);
  // Of the one with four archives it cannot have brought all.
  const whole = [];
  for (const key of keys) {
    if ((await bucket.look(key, call)).newest === undefined) continue;
    assert.equal(await everything(bucket, key), await everything(volume, key));
    whole.push(key.tenantId);
  }

  context.writes.length = 0;
  faults.decide = (request) => note(request, context);
  const { code, says } = await start(context).ended;
  assert.is(code, 0, says);
  const left = keys.length + 1 - whole.length;
  assert.match(says, `: ${left} copied, ${whole.length} were there, 0 left as they are, 0 failed`);
  for (const tenantId of whole)
    assert.not.ok(
      context.writes.some((write) => write.includes(`/${tenantId}/`)),
      tenantId,
    );
  for (const key of [...keys, versioned]) {
    assert.equal(await everything(bucket, key), await everything(volume, key), key.tenantId);
  }
});

test("a second run writes nothing, and a later one brings what was saved since", async (context) => {
  const { volume, bucket, writes } = context;
  const again = await start(context).ended;
  assert.is(again.code, 0, again.says);
  assert.match(again.says, ": 0 copied, 13 were there, 0 left as they are, 0 failed");
  assert.equal(writes, []);
  const [first = versioned] = keys;
  await save(volume, "saved since", first, { createdAt: "2026-11-22T00:00:00.000Z" });
  const later = await start(context).ended;
  assert.is(later.code, 0, later.says);
  assert.match(later.says, ": 1 copied, 12 were there");
  assert.is(await load(bucket, first), "saved since");
  assert.equal([...new Set(writes.map((write) => write.split("/")[1]))], [first.tenantId]);
});

test("with --delete it does not begin from a volume that was left for a bucket", async (context) => {
  const { bucket, tenancy, writes } = context;
  const came = { tenantId: "came-since", workloadRef: "keeps" };
  await save(bucket, "of a tenant that came since the move", came);
  writes.length = 0;
  const { client } = tenancy;
  const reference = { namespace: NAMESPACE, name: SNAPSHOTS_NAME };
  const leave = (store: string | null) =>
    client.patch(persistentVolumeClaims, reference, {
      ...{ type: "merge", body: { metadata: { annotations: { [annotation.volumeLeft]: store } } } },
    });
  await leave("s3://bucket/snapshots");
  const refused = await start(context, "--delete").ended;
  assert.is(refused.code, 1, refused.says);
  assert.match(refused.says, /^Cannot delete what the snapshots volume does not have: .*s3:\/\/bucket\/snapshots/);
  assert.equal([await load(bucket, came), writes], ["of a tenant that came since the move", []]);
  await leave(null);
  const done = await start(context, "--delete").ended;
  assert.is(done.code, 0, done.says);
  assert.is(await load(bucket, came), undefined);
});

test("an archive that has changed on the volume is not copied, and is named", async (context) => {
  const { volume, bucket, folder } = context;
  const changed = { tenantId: "changed", workloadRef: "keeps" };
  const sound = { tenantId: "sound", workloadRef: "keeps" };
  for (const key of [changed, sound]) await save(volume, "as it was saved", key);
  const path = join(folder, "volume/changed/keeps.tar.gz");
  writeFileSync(path, readFileSync(path, "utf8").replace("saved", "SAVED"));
  const { code, says } = await start(context).ended;
  assert.is(code, 1, says);
  assert.match(says, /changed\/keeps: not copied, its SHA-256 is not the one that was recorded\n/);
  assert.equal([await load(bucket, changed), await load(bucket, sound)], [undefined, "as it was saved"]);
});

test.run();
