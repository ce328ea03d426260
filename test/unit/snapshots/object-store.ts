import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createS3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Store, type S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { type ObjectServer, startObjectServer } from "../../../scripts/cluster/objects/object-server.ts";

let starting: Promise<ObjectServer> | undefined;

async function start(): Promise<ObjectServer> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-objects-"));
  // The server ends with this process.
  process.once("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }));
  return await startObjectServer({ folder, log: console.log });
}

/** A store in a bucket of its own, on a real server of this process's. */
export async function makeObjectStore({ isMarked }: { isMarked: () => boolean }): Promise<S3Store> {
  starting ??= start();
  const { endpoint, region, accessKeyId, secretAccessKey } = await starting;
  const bucket = `bucket-${randomBytes(4).toString("hex")}`;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket, isPathStyle: true, credentials });
  await client.send({ method: "PUT", signal: AbortSignal.timeout(60_000) });
  return createS3Store({ client, bucket, prefix: "", wasMarked: async () => isMarked() });
}
