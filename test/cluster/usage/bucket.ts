import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createS3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import { startObjectServer } from "../../../scripts/cluster/objects/object-server.ts";

/** An empty bucket on a server of its own, and the settings of a store in it. */
export async function startBucket(name: string) {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-objects-"));
  const server = await startObjectServer({ folder, log: console.log });
  const { endpoint, region, accessKeyId, secretAccessKey } = server;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket: name, isPathStyle: true, credentials });
  await client.send({ method: "PUT", signal: AbortSignal.timeout(60_000) });
  client.close();
  return {
    env: {
      ...{ TENANCY_SNAPSHOT_STORE: `s3://${name}/here`, TENANCY_SNAPSHOT_ENDPOINT: endpoint },
      ...{ AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
    },
    async stop(): Promise<void> {
      await server.stop();
      rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
    },
  };
}
