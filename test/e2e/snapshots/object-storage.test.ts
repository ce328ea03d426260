// @limit 1800
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import { openS3Store } from "../../../crds/snapshots/open-store.ts";
import { createS3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import type { S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { type ObjectServer, startObjectServer } from "../../../scripts/cluster/objects/object-server.ts";
import { parseArguments } from "../../../scripts/snapshots/arguments.ts";
import { testAtOnce } from "../../at-once.ts";
import { type Lifecycle, NAMESPACE, startLifecycle } from "./lifecycle.ts";

interface Context {
  folder: string;
  server: ObjectServer;
  env: Record<string, string>;
  store: S3Store;
  life: Lifecycle;
}

const test = suite<Context>("files over a release and the next claim, in object storage");
const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
const place = "s3://bucket/snapshots";

test.before(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-objects-"));
  context.server = await startObjectServer({ folder: context.folder, log: console.log });
  const { endpoint, region, accessKeyId, secretAccessKey } = context.server;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket: "bucket", isPathStyle: true, credentials });
  assert.is((await client.send({ method: "PUT", signal: call.signal })).status, 200);
  client.close();
  context.env = {
    TENANCY_SNAPSHOT_STORE: place,
    TENANCY_SNAPSHOT_ENDPOINT: endpoint,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
  };
  const parsed = parseArguments(["copy", "--from", "volume", "--to", place], context.env);
  assert.ok(parsed.command === "copy" && parsed.to.place.kind === "s3");
  context.store = openS3Store(parsed.to.place, { env: context.env });
  context.life = await startLifecycle(`e2e-objects-${process.pid}`);
  await context.life.startOperator(context.env);
});
test.after(async ({ life, store, server, folder }) => {
  await life.down();
  store.close();
  await server.stop();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

async function restoreColdAndWarm({ life, store }: Context): Promise<void> {
  for (const [name, source] of [
    ["cold", "cold+data"],
    ["warm", "pool+data"],
  ] as const) {
    await life.createWorkload(name);
    if (name === "warm") await life.createPool(name, name, 1);
    await life.keep("ann", name, `of ${name}`);
    const { state, newest } = await store.look({ tenantId: "ann", workloadRef: name }, call);
    assert.equal([state, newest?.tenantId], ["kept", "ann"]);
    if (name === "warm") await life.untilPool(name, 1);
    const claim = await life.claim("ann", name, true);
    assert.equal([claim.status?.source, claim.status?.resumedFrom], [source, newest?.sha256]);
    assert.is(await life.kept(claim), `of ${name}\n`);
  }
}

async function keepWhatWasReplaced({ life, store }: Context): Promise<void> {
  const key = { tenantId: "bob", workloadRef: "replaced" };
  await life.createWorkload("replaced");
  await life.keep("bob", "replaced", "first");
  const { newest } = await store.look(key, call);
  const claim = await life.claim("bob", "replaced", false);
  await life.run(claim.status?.instanceId, "echo second > /data/file");
  await life.release(claim);
  const { versions } = await store.look(key, call);
  assert.equal(
    versions.map(({ sha256, kept }) => [sha256, kept]),
    [[newest?.sha256, "replaced"]],
  );
}

async function keepTenantsApart({ life }: Context): Promise<void> {
  await life.createWorkload("shared");
  const tenants = ["t", "t.t", "T", "t_t", "t-t"];
  await Promise.all(tenants.map((tenant) => life.keep(tenant, "shared", `of ${tenant}`)));
  const held = await Promise.all(tenants.map((tenant) => life.claim(tenant, "shared", true)));
  assert.equal(
    await Promise.all(held.map(life.kept)),
    tenants.map((tenant) => `of ${tenant}\n`),
  );
}

testAtOnce(test, [
  ["files come back before the program starts, and into a running pod", restoreColdAndWarm],
  ["a session that did not resume leaves what was there as a version", keepWhatWasReplaced],
  ["tenants with names alike have files of their own", keepTenantsApart],
]);

test("there is neither a helper pod nor a volume", async ({ life }) => {
  const { client } = life;
  for (const resource of [pods, persistentVolumeClaims]) {
    const { items } = await client.list<{ metadata: { name: string } }>(resource as typeof pods, {
      namespace: NAMESPACE,
    });
    assert.not.ok(items.some(({ metadata }) => metadata.name === SNAPSHOTS_NAME));
  }
});

test("an operator that starts anew finds all, and a bucket that was emptied is no empty store", async (context) => {
  const { life, store, env } = context;
  await life.createWorkload("again");
  await life.keep("ann", "again", "kept");
  await life.killOperator();
  await life.startOperator(env);
  const claim = await life.claim("ann", "again", true);
  assert.is(await life.kept(claim), "kept\n");
  for (const { tenantId, workloadRef } of (await store.list({ versions: false, limit: 1000 }, call)).items) {
    await store.delete({ tenantId, workloadRef }, call);
  }
  const { endpoint, region, accessKeyId, secretAccessKey } = context.server;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket: "bucket", isPathStyle: true, credentials });
  await client.send({ method: "DELETE", key: "snapshots/marked", signal: call.signal });
  client.close();
  const waiting = await life.createClaim("newcomer", "again", true);
  const { status } = await life.untilClaim(waiting, "to wait", (seen) => seen?.reason === "SnapshotsUnavailable");
  assert.match(status?.message ?? "", /the mark that was in the store is gone/);
});

test.run();
