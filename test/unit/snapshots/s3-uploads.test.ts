import { test } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { openS3Store } from "../../../crds/snapshots/open-store.ts";
import type { S3Answer, S3Request } from "../../../crds/snapshots/s3/s3-client.ts";
import type { S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { createS3Uploads } from "../../../crds/snapshots/s3/s3-uploads.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { storePlace } from "../../../crds/snapshots/store-config.ts";
import { bucketOf, type S3Asked, type SimulatedS3, simulatedS3Store, startSimulatedS3 } from "./simulated-s3.ts";
import { call, key, load, MOST, save } from "./store-contract.ts";

test("createS3Uploads: what takes more parts than an upload may have is refused, and ended", async () => {
  const parts = new Set<string>();
  let aborted = 0;
  async function send({ method, query = {} }: S3Request): Promise<S3Answer> {
    if (method === "PUT") parts.add(query.partNumber ?? "");
    if (method === "DELETE") aborted += 1;
    const body = Buffer.from(method === "POST" ? "<UploadId>u</UploadId>" : "");
    return { status: 200, etag: '"e"', headers: {}, body, code: "", isRepeated: false };
  }
  const uploads = createS3Uploads({ bucket: bucketOf(send), partBytes: 1, copyBytes: 1 });
  const write = (bytes: number) => uploads.write("a", content(bytes), new AbortController().signal);
  async function* content(bytes: number): AsyncGenerator<Buffer> {
    yield Buffer.alloc(bytes);
  }
  assert.is((await write(10_000)).sizeBytes, 10_000);
  assert.equal([parts.size, aborted], [10_000, 0]);
  const refused = await write(10_001).catch((error: unknown) => error);
  assert.instance(refused, ArchiveError);
  assert.equal([parts.has("10001"), aborted], [false, 1]);
});

const WHITE_SPACE = `<?xml version="1.0" encoding="UTF-8"?>\n${" ".repeat(3000)}`;
const LATE_ERROR = `${WHITE_SPACE}<Error><Code>InternalError</Code><Message>try again</Message></Error>`;
const isCompletion = ({ method, query }: S3Asked): boolean => method === "POST" && query.has("uploadId");
const isCopy = ({ headers }: S3Asked): boolean => headers["x-amz-copy-source"] !== undefined;
const other = { tenantId: "other", workloadRef: "w" };

async function withStore(work: (given: { store: S3Store; server: SimulatedS3 }) => Promise<void>): Promise<void> {
  const server = await startSimulatedS3();
  const store = simulatedS3Store(server);
  try {
    await work({ store, server });
  } finally {
    store.close();
    await server.close();
  }
}

test("createS3Uploads: a completion that fails behind a 200 is none, and what was there stays", () =>
  withStore(async ({ store, server }) => {
    await save(store, "the good one");
    for (const body of [LATE_ERROR, WHITE_SPACE, "<CompleteMultipartUploadResult><ETag></ETag>"]) {
      server.decide = (asked) => (isCompletion(asked) ? { body, isDone: false } : undefined);
      const error = await save(store, "x".repeat(2500)).catch((cause: unknown) => cause);
      assert.ok(error instanceof StoreError && error.isTransient, String(error));
    }
    assert.is(await load(store), "the good one");
    const archives = [...server.objects.keys()].filter((name) => name.startsWith("archives/"));
    assert.is(archives.length, 1);
  }));

test("createS3Uploads: one that fails late is tried again, also where it was done nevertheless", () =>
  withStore(async ({ store, server }) => {
    for (const isDone of [false, true]) {
      let completions = 0;
      server.decide = (asked) => {
        if (!isCompletion(asked)) return undefined;
        completions += 1;
        return completions === 1 ? { body: LATE_ERROR, isDone } : undefined;
      };
      const content = `${isDone}`.repeat(800);
      await save(store, content);
      assert.equal([await load(store), completions], [content, 2]);
    }
  }));

test("createS3Uploads: a copy that fails behind a 200 is none, in one request and in parts", () =>
  withStore(async ({ store, server }) => {
    for (const bytes of [1500, 2500]) {
      await save(store, "x".repeat(bytes));
      const sha256 = (await store.look(key, call)).newest?.sha256 ?? "";
      const copy = async () => {
        const { revision: replaces } = await store.look(other, call);
        const given = { ...call, replaces, most: MOST, createdAt: "2026-11-22T00:00:00.000Z" };
        return await store.adopt(other, { ...key, sha256 }, given);
      };
      server.decide = (asked) => (isCopy(asked) ? { body: LATE_ERROR, isDone: false } : undefined);
      const error = await copy().catch((cause: unknown) => cause);
      assert.ok(error instanceof StoreError && error.isTransient, String(error));
      assert.is((await store.look(other, call)).newest, undefined);
      let copies = 0;
      server.decide = (asked) => {
        if (isCopy(asked)) copies += 1;
        return isCopy(asked) && copies === 1 ? { body: LATE_ERROR, isDone: false } : undefined;
      };
      await copy();
      assert.is(await load(store, other), "x".repeat(bytes));
      await store.delete(other, call);
    }
  }));

test("openS3Store: each request that makes an object asks for the encryption that is configured, and no other", async () => {
  const server = await startSimulatedS3();
  const place = storePlace({
    ...{ TENANCY_SNAPSHOT_STORE: "s3://bucket/prefix", TENANCY_SNAPSHOT_ENDPOINT: server.endpoint },
    ...{ TENANCY_SNAPSHOT_SSE: "aws:kms", TENANCY_SNAPSHOT_KMS_KEY: "alias/tenants" },
  });
  assert.ok(place.kind === "s3");
  const env = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
  const store = openS3Store(place, { env });
  try {
    await save(store, "small");
    const { metadata } = await save(store, Buffer.alloc(5 * 1024 * 1024 + 1), key);
    const { revision: replaces } = await store.look(other, call);
    const given = { ...call, replaces, most: MOST, createdAt: "2026-11-22T00:00:00.000Z" };
    await store.adopt(other, { ...key, sha256: metadata.sha256 }, given);
    await store.touch([key], call);
  } finally {
    store.close();
    await server.close();
  }
  const made = new Map<string, boolean>();
  for (const asked of server.asked) {
    const { "x-amz-server-side-encryption": way, "x-amz-server-side-encryption-aws-kms-key-id": kms } = asked.headers;
    const isEncrypted = way === "aws:kms" && kms === "alias/tenants";
    assert.is(isEncrypted || (way === undefined && kms === undefined), true, asked.key);
    const what = madeBy(asked);
    made.set(what, isEncrypted && made.get(what) !== false);
  }
  assert.equal(
    [...made]
      .filter(([, isEncrypted]) => isEncrypted)
      .map(([what]) => what)
      .sort(),
    [
      ...["begin archives", "begin probe", "copy archives", "put archives"],
      ...["put heads", "put marked", "put probe", "put used"],
    ],
  );
  const others = [...made].filter(([, isEncrypted]) => !isEncrypted).map(([what]) => what);
  assert.equal(others.sort(), ["complete archives", "other", "part archives"]);
});

function madeBy(asked: S3Asked): string {
  const { method, key: name, query } = asked;
  const folder = name.split("/")[1] ?? "";
  if (method === "POST") return `${query.has("uploads") ? "begin" : "complete"} ${folder}`;
  if (method !== "PUT") return "other";
  return `${query.has("partNumber") ? "part" : isCopy(asked) ? "copy" : "put"} ${folder}`;
}

test.run();
