import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createS3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import type { Log } from "../../cluster/log.ts";
import { startObjectServer } from "../../cluster/objects/object-server.ts";

/** Object storage that snapshots are kept in, in the place of the volume. */
export interface SoakObjects {
  readonly endpoint: string;
  readonly bucket: string;
  /** The folder of this machine that has the bucket's objects. */
  readonly folder: string;
  /** Whether it is out of reach for everybody. */
  isLost: boolean;
  /** Lets its server stand still until `goOn`. */
  hang(): void;
  goOn(): void;
  /** What a program is told that reaches it at an address of its own. */
  environment(endpoint: string): Readonly<Record<string, string>>;
}

/** No path of an API server begins with it. */
const BUCKET = "soak-objects";

/** Starts a real S3 server on this machine, with an empty bucket. */
export async function startSoakObjects({
  log,
  onStop,
}: {
  log: Log;
  onStop(step: () => unknown): void;
}): Promise<SoakObjects> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-soak-objects-"));
  onStop(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  const { endpoint, region, accessKeyId, secretAccessKey, pid, stop } = await startObjectServer({ folder, log });
  onStop(stop);
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket: BUCKET, isPathStyle: true, credentials });
  const { status, code } = await client.send({ method: "PUT", signal: AbortSignal.timeout(60_000) });
  client.close();
  if (status !== 200) throw new Error(`Cannot make a bucket: ${status} ${code}`);
  return {
    ...{ endpoint, bucket: BUCKET, folder: join(folder, "objects", BUCKET), isLost: false },
    hang: () => void process.kill(pid, "SIGSTOP"),
    goOn: () => void process.kill(pid, "SIGCONT"),
    environment: (reachedAt) => ({
      TENANCY_SNAPSHOT_STORE: `s3://${BUCKET}/snapshots`,
      TENANCY_SNAPSHOT_ENDPOINT: reachedAt,
      TENANCY_SNAPSHOT_REGION: region,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    }),
  };
}
