// @own-cluster
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openS3Store } from "../../../crds/snapshots/open-store.ts";
import { createS3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import type { S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { type ObjectServer, startObjectServer } from "../../../scripts/cluster/objects/object-server.ts";
import { parseArguments } from "../../../scripts/snapshots/arguments.ts";
import { call, key, load, save } from "../../unit/snapshots/store-contract.ts";

interface Context {
  folder: string;
  server: ObjectServer;
  env: Record<string, string>;
  from: S3Store;
  to: S3Store;
}

const test = suite<Context>("npm run snapshots -- copy");
const words = ["copy", "--from", "s3://first/snapshots", "--to", "s3://second"];

test.before(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-copy-"));
  context.server = await startObjectServer({ folder: context.folder, log: console.log });
  const { endpoint, region, accessKeyId, secretAccessKey } = context.server;
  context.env = {
    ...{ TENANCY_SNAPSHOT_ENDPOINT: endpoint, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
  };
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  for (const bucket of ["first", "second"]) {
    const client = createS3Client({ endpoint, region, bucket, isPathStyle: true, credentials });
    assert.is((await client.send({ method: "PUT", signal: call.signal })).status, 200);
    client.close();
  }
  const parsed = parseArguments(words, context.env);
  assert.ok(parsed.command === "copy" && parsed.from.place.kind === "s3" && parsed.to.place.kind === "s3");
  context.from = openS3Store(parsed.from.place, { env: context.env });
  context.to = openS3Store(parsed.to.place, { env: context.env });
});
test.after(async ({ folder, server, from, to }) => {
  for (const store of [from, to]) store.close();
  await server.stop();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

function run(env: Record<string, string>, ...more: string[]): Promise<{ code: number | null; says: string }> {
  return new Promise((resolve, reject) => {
    const { PATH = "" } = process.env;
    const child = spawn(process.execPath, ["--import", "tsx", "scripts/snapshots.ts", ...words, ...more], {
      env: { PATH, ...env },
      stdio: ["ignore", "inherit", "pipe"],
    });
    let says = "";
    child.stderr.on("data", (chunk: Buffer) => {
      says += chunk;
    });
    child.on("error", reject).on("close", (code) => resolve({ code, says }));
  });
}

test("brings all to the other bucket, says how far it is, and ends with whether all is there", async (context) => {
  const { from, to, env } = context;
  const other = { tenantId: "other", workloadRef: "w" };
  await save(from, "of a");
  await save(from, "of the other", other);
  const hour = "2026-11-29T10";
  await from.usageRecords.append({ hour, name: "a-1", lines: "a record\n" }, call);
  await from.usageRecords.setRecordedUntil(hour, call);
  const first = await run(env);
  assert.is(first.code, 0, first.says);
  assert.match(first.says, /copying the snapshots of 2 tenants and workloads\n/);
  assert.match(first.says, /2 of 2 tenants and workloads, 0.0 MiB sent .*: 2 copied, 0 were there/);
  assert.equal([await load(to), await load(to, other)], ["of a", "of the other"]);
  assert.match(first.says, /usage records: 1 hours copied, 0 were there\n$/);
  const records: string[] = [];
  for await (const lines of to.usageRecords.read({ from: hour, to: "2026-11-29T11" }, call)) records.push(...lines);
  assert.equal([records, await to.usageRecords.recordedUntil(call)], [["a record"], hour]);
  assert.is((await to.look(key, call)).newest?.createdAt, (await from.look(key, call)).newest?.createdAt);

  const usedSince = await save(to, "used since", other, { createdAt: "2026-11-22T00:00:00.000Z" });
  await from.delete(key, call);
  const second = await run(env, "--delete");
  assert.is(second.code, 1);
  assert.match(second.says, /other\/w: left as it is, the target was used since\n/);
  assert.match(second.says, new RegExp(`${key.tenantId}/${key.workloadRef}: .* it stays, since the target was used`));
  assert.match(second.says, /1 more in the target\nnothing was deleted: where the source is the one that is in use/);
  assert.equal([await load(to), await load(to, other)], ["of a", "used since"]);

  await to.delete(other, { ...call, replaces: usedSince.revision });
  const third = await run(env, "--delete");
  assert.is(third.code, 0, third.says);
  assert.match(third.says, /usage records: 0 hours copied, 1 were there\n$/);
  assert.match(third.says, new RegExp(`${key.tenantId}/${key.workloadRef}: deleted, the source has none\n`));
  assert.equal([await load(to), await load(to, other)], [undefined, "of the other"]);
});

test("says what is wrong in a line", async ({ env }) => {
  const denied = await run({ ...env, AWS_SECRET_ACCESS_KEY: "wrong" });
  assert.is(denied.code, 1);
  assert.match(denied.says, /^Cannot .*SignatureDoesNotMatch.*\n$/);
  const { AWS_SECRET_ACCESS_KEY: _, ...without } = env;
  const halved = await run(without);
  assert.equal(halved, {
    code: 1,
    says: "Cannot find credentials for object storage: AWS_SECRET_ACCESS_KEY is unset, but the other key variable is set\n",
  });
});

test.run();
