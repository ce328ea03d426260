import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Test } from "uvu";
import * as assert from "uvu/assert";
import { createS3Client, type S3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import { type ObjectServer, startObjectServer } from "../../../scripts/cluster/objects/object-server.ts";
import { call } from "../../unit/snapshots/store-contract.ts";
import { type ObjectFaultProxy, startObjectFaults } from "./object-faults.ts";

/** A bucket on a real server of object storage, and what lies between. */
export interface TestBucket {
  /** Where the server keeps its objects. */
  folder: string;
  server: ObjectServer;
  faults: ObjectFaultProxy;
  bucket: string;
  client: S3Client;
}

let starting: Promise<Pick<TestBucket, "folder" | "server">> | undefined;

async function start(): Promise<Pick<TestBucket, "folder" | "server">> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-objects-"));
  // The server ends with this process.
  process.once("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }));
  return { folder, server: await startObjectServer({ folder, log: console.log }) };
}

/** Gives each of a suite's tests an empty bucket of its own, on one server of this process. */
export function useBuckets<T extends TestBucket>(test: Test<T>): void {
  test.before(async (context) => {
    starting ??= start();
    Object.assign(context, await starting);
  });
  test.before.each(async (context) => {
    context.faults = await startObjectFaults(context.server.endpoint);
    context.bucket = `bucket-${randomBytes(4).toString("hex")}`;
    const { faults, bucket } = context;
    const { accessKeyId, secretAccessKey, region } = context.server;
    const credentials = async () => ({ accessKeyId, secretAccessKey });
    context.client = createS3Client({ endpoint: faults.endpoint, region, bucket, isPathStyle: true, credentials });
    assert.is((await context.client.send({ method: "PUT", signal: call.signal })).status, 200);
  });
  test.after.each(async ({ faults, client }) => {
    await faults.settled();
    client.close();
    await faults.close();
  });
}
