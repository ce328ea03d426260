import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createS3Bucket, type S3Bucket } from "../../../crds/snapshots/s3/s3-bucket.ts";
import { s3Layout } from "../../../crds/snapshots/s3/s3-layout.ts";
import { probeS3 } from "../../../crds/snapshots/s3/s3-probe.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { type TestBucket, useBuckets } from "./test-buckets.ts";

interface Context extends TestBucket {
  objects: S3Bucket;
}

const test = suite<Context>("probeS3");
const { signal } = new AbortController();

useBuckets(test);
test.before.each((context) => {
  const { client, bucket: name } = context;
  context.objects = createS3Bucket({ client, name, encryption: {} });
});

async function probe({ objects: bucket }: Context): Promise<unknown> {
  return await probeS3({ bucket, layout: s3Layout("some/prefix"), signal }).then(
    () => undefined,
    (error: unknown) => error,
  );
}

test("is content with a server that does all, and leaves nothing there", async (context) => {
  assert.is(await probe(context), undefined);
  assert.equal(await context.objects.list("", signal), []);
});

test("refuses a server that takes no notice of conditions, and leaves nothing there", async (context) => {
  for (const name of ["if-match", "if-none-match"]) {
    let conditions = 0;
    // The first is to be fulfilled.
    const isFirst = (): boolean => name === "if-none-match" && conditions++ === 0;
    context.faults.decide = ({ headers }) => (name in headers && !isFirst() ? "pretended" : undefined);
    const error = await probe(context);
    assert.ok(error instanceof StoreError && !error.isTransient, String(error));
    assert.match(error.message, new RegExp(`ignores ${name}`, "i"));
    assert.equal(await context.objects.list("", signal), []);
  }
});

test("names all rights that are missing", async (context) => {
  const isUploads = (path: string): boolean => /[?&]uploads/.test(path);
  context.faults.decide = ({ method, path }) => {
    if (method === "DELETE") return "denied";
    return method === "GET" && (path.includes("list-type") || isUploads(path)) ? "denied" : undefined;
  };
  const missing = "s3:AbortMultipartUpload, s3:DeleteObject, s3:ListBucket, s3:ListBucketMultipartUploads";
  const error = await probe(context);
  assert.ok(error instanceof StoreError && !error.isTransient, String(error));
  assert.ok(error.message.endsWith(`the credentials lack ${missing}`), error.message);
  context.faults.decide = ({ method }) => (method === "PUT" || method === "POST" ? "denied" : undefined);
  assert.match(String(await probe(context)), /the credentials lack s3:PutObject$/);
  context.faults.decide = ({ method, path }) => (method === "GET" && !path.includes("?") ? "denied" : undefined);
  assert.match(String(await probe(context)), /the credentials lack s3:GetObject, s3:ListBucket$/);
});

test("says of a server that fails that it may do better", async (context) => {
  context.faults.decide = () => "slowDown";
  const error = await probe(context);
  assert.ok(error instanceof StoreError && error.isTransient, String(error));
});

test("says of a server that something else was under way at that it may do better", async (context) => {
  for (const name of ["if-match", "if-none-match"]) {
    context.faults.decide = ({ headers }) => (name in headers ? "conflict" : undefined);
    const error = await probe(context);
    assert.ok(error instanceof StoreError && error.isTransient, String(error));
  }
});

test("is content with a server that loses answers", async (context) => {
  for (let lost = 0; lost < 6; lost += 1) {
    let writes = 0;
    context.faults.decide = ({ method }) => (method !== "GET" && writes++ === lost ? "lost" : undefined);
    assert.is(await probe(context), undefined, `write ${lost}`);
  }
});

test.run();
