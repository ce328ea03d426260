import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openS3Store } from "../../../crds/snapshots/open-store.ts";
import { createS3Client, elementsOf, type S3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { storePlace } from "../../../crds/snapshots/store-config.ts";
import { type ObjectServer, startObjectServer } from "../../../scripts/cluster/objects/object-server.ts";
import { type ObjectFaultProxy, startObjectFaults } from "../../cluster/snapshots/object-faults.ts";

/** Object storage of a test, in the place of the volume. */
export interface LifeObjects {
  /** For operators. */
  readonly env: Readonly<Record<string, string>>;
  readonly store: SnapshotStore;
  /** What goes wrong with the operators' requests; undefined where they ask the server itself. */
  readonly faults: ObjectFaultProxy | undefined;
  /** Stops the server as one does that hangs, until it is told to go on. */
  freeze(): void;
  thaw(): void;
  /** Kills the server, and starts it anew with what it had. */
  kill(): Promise<void>;
  /** Whether an archive of the tenant is being sent, some of which is there. */
  isSaving(tenantId: string): Promise<boolean>;
  /** Names of the objects that are archives of a tenant, whether they count or not. */
  archivesOf(tenantId: string): Promise<string[]>;
  /** The only archive of a tenant and workload as it is, whatever is recorded of it. */
  stored(key: SnapshotKey): Promise<Buffer>;
  /** Writes over it, which no store does. */
  overwrite(key: SnapshotKey, archive: Buffer): Promise<void>;
  /** Takes the bucket away, with all that is in it, until it is brought back. */
  takeAway(): void;
  bringBack(): void;
  stop(): Promise<void>;
}

const BUCKET = "bucket";
const PREFIX = "snapshots";

/** @param options.hasFaults whether operators ask through a proxy that can let requests fail */
export async function startLifeObjects({ hasFaults }: { hasFaults: boolean }): Promise<LifeObjects> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-objects-"));
  let server: ObjectServer = await startObjectServer({ folder, log: console.log });
  const { endpoint, region, port, accessKeyId, secretAccessKey } = server;
  const own = {
    ...{ TENANCY_SNAPSHOT_STORE: `s3://${BUCKET}/${PREFIX}`, TENANCY_SNAPSHOT_ENDPOINT: endpoint },
    ...{ AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
  };
  const faults = hasFaults ? await startObjectFaults(endpoint) : undefined;
  const env = { ...own, TENANCY_SNAPSHOT_ENDPOINT: faults?.endpoint ?? endpoint };
  const place = storePlace(own);
  if (place.kind !== "s3") throw new Error("the tests' own variables name no object storage");
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client: S3Client = createS3Client({ endpoint, region, bucket: BUCKET, isPathStyle: true, credentials });
  const { signal } = new AbortController();
  await client.send({ method: "PUT", signal });
  const store = openS3Store(place, { env: own });
  let isFrozen = false;

  function thaw(): void {
    if (isFrozen) process.kill(server.pid, "SIGCONT");
    isFrozen = false;
  }

  async function archivesOf(tenantId: string): Promise<string[]> {
    const query = { "list-type": "2", prefix: `${PREFIX}/archives/${tenantId}/` };
    const { body } = await client.send({ method: "GET", query, signal });
    return elementsOf(body.toString("utf8"), "Key");
  }

  async function onlyArchiveOf({ tenantId, workloadRef }: SnapshotKey): Promise<string> {
    const [at, ...others] = (await archivesOf(tenantId)).filter((name) => name.includes(`/${workloadRef}/`));
    if (at === undefined || others.length > 0) throw new Error(`${tenantId} has not just one archive`);
    return at;
  }

  const bucketFolder = join(folder, "objects", BUCKET);
  return {
    ...{ env, store, faults, thaw, archivesOf },
    takeAway: () => renameSync(bucketFolder, join(folder, "away")),
    bringBack: () => renameSync(join(folder, "away"), bucketFolder),
    async stored(key) {
      return (await client.send({ method: "GET", key: await onlyArchiveOf(key), signal })).body;
    },
    async overwrite(key, archive) {
      await client.send({ method: "PUT", key: await onlyArchiveOf(key), body: archive, signal });
    },
    freeze() {
      process.kill(server.pid, "SIGSTOP");
      isFrozen = true;
    },
    async kill() {
      process.kill(server.pid, "SIGKILL");
      isFrozen = false;
      await server.stop();
      server = await startObjectServer({ folder, port });
    },
    async isSaving(tenantId) {
      const under = `${PREFIX}/archives/${tenantId}/`;
      const { body } = await client.send({ method: "GET", query: { uploads: "", prefix: under }, signal });
      return body.includes("<UploadId>");
    },
    async stop() {
      thaw();
      for (const each of [client, store]) each.close();
      await faults?.close();
      await server.stop();
      rmSync(folder, { recursive: true, maxRetries: 20 });
    },
  };
}
