import { test } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { S3Bucket } from "../../../crds/snapshots/s3/s3-bucket.ts";
import type { S3Answer, S3Request } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Uploads } from "../../../crds/snapshots/s3/s3-uploads.ts";

test("createS3Uploads: what takes more parts than an upload may have is refused, and ended", async () => {
  const parts = new Set<string>();
  let aborted = 0;
  async function send({ method, query = {} }: S3Request): Promise<S3Answer> {
    if (method === "PUT") parts.add(query.partNumber ?? "");
    if (method === "DELETE") aborted += 1;
    const body = Buffer.from(method === "POST" ? "<UploadId>u</UploadId>" : "");
    return { status: 200, etag: '"e"', headers: {}, body, code: "", isRepeated: false };
  }
  const bucket = { name: "b", encryption: {}, send, expect: (answer: S3Answer) => answer } as unknown as S3Bucket;
  const uploads = createS3Uploads({ bucket, partBytes: 1, copyBytes: 1 });
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

test.run();
