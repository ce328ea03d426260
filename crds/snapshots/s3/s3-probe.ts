import { randomBytes } from "node:crypto";
import { StoreError } from "../snapshot-store.ts";
import { isMissing, type S3Bucket } from "./s3-bucket.ts";
import { elementOf, type S3Answer } from "./s3-client.ts";
import type { S3Layout } from "./s3-layout.ts";

/**
 * Tests, on a separate object, everything that the store needs from a server. A commit depends on `If-Match` and
 * `If-None-Match`. Some servers ignore them, and two saves would then both succeed.
 *
 * @throws StoreError (not transient) that names what the server does not support, or all missing permissions
 */
export async function probeS3({
  bucket,
  layout,
  signal,
}: {
  bucket: S3Bucket;
  layout: S3Layout;
  signal: AbortSignal;
}): Promise<void> {
  const key = `${layout.prefix}probe/${randomBytes(16).toString("hex")}`;
  const denied = new Set<string>();
  const { encryption, send } = bucket;

  function refuse(why: string): never {
    throw new StoreError(`Cannot keep archives in bucket "${bucket.name}": ${why}`, { isTransient: false });
  }

  /**
   * Whether the credentials have the right.
   *
   * @throws StoreError if the response is neither a refusal nor one of the statuses
   */
  function has(right: string, answer: S3Answer, ...statuses: readonly number[]): boolean {
    if (statuses.includes(answer.status)) return true;
    if (answer.code !== "AccessDenied" || isKmsRefusal(answer)) bucket.expect(answer, `probe ${right}`, ...statuses);
    denied.add(right);
    return false;
  }

  function put(content: string, condition: Record<string, string>): Promise<S3Answer> {
    const headers = { ...encryption, ...condition, "x-amz-meta-commit": content };
    return send({ method: "PUT", key, headers, body: Buffer.from(content), signal });
  }

  function checkRefusal(name: string, answer: S3Answer): void {
    if (answer.status === 200) refuse(`its server ignores ${name}`);
    bucket.expect(answer, `probe ${name}`, 412, 409);
  }

  async function checkConditions(): Promise<void> {
    const first = await put("first", { "if-none-match": "*" });
    if (first.status === 501) refuse("its server has no conditional writes");
    if (!has("s3:PutObject", first, 200, ...(first.isRepeated ? [412] : []))) return;
    checkRefusal("If-None-Match", await put("again", { "if-none-match": "*" }));
    const strange = '"00000000000000000000000000000000"';
    checkRefusal("If-Match", await put("strange", { "if-match": strange }));
    const found = await send({ method: "GET", key, signal });
    if (!has("s3:GetObject", found, 200)) return;
    if (found.body.toString("utf8") !== "first") refuse("it does not return the content that was written");
    if (found.headers["x-amz-meta-commit"] !== "first") refuse("it does not keep the metadata of objects");
    const second = await put("second", { "if-match": found.etag });
    // After a 409 (another write was in progress) the probe may be repeated.
    if (second.status === 409) bucket.expect(second, "probe If-Match", 200);
    if (second.status !== 200 && !(second.isRepeated && second.status === 412)) {
      refuse(`its server refuses If-Match with the object's own ETag (${second.status})`);
    }
  }

  async function checkLists(): Promise<void> {
    const listed = await send({ method: "GET", query: { "list-type": "2", prefix: key }, signal });
    if (has("s3:ListBucket", listed, 200) && !denied.has("s3:PutObject")) {
      const isListed = elementOf(listed.body.toString("utf8"), "Key") === key;
      if (!isListed) refuse("an object that was just written is not in its list");
    }
    const missing = await send({ method: "GET", key: `${key}-none`, signal });
    // Without the right to list, the response for a missing object is 403.
    if (!isMissing(missing)) has("s3:ListBucket", missing, 404);
  }

  async function checkUploads(): Promise<void> {
    const query = { uploads: "" };
    const begun = await send({ method: "POST", key, query, headers: encryption, signal });
    if (has("s3:PutObject", begun, 200)) {
      const uploadId = elementOf(begun.body.toString("utf8"), "UploadId") ?? "";
      const aborted = await send({ method: "DELETE", key, query: { uploadId }, signal });
      has("s3:AbortMultipartUpload", aborted, 204, 200, 404);
    }
    const uploads = await send({ method: "GET", query: { ...query, prefix: key }, signal });
    has("s3:ListBucketMultipartUploads", uploads, 200);
  }

  try {
    await checkConditions();
    await checkLists();
    await checkUploads();
  } finally {
    if (!signal.aborted) has("s3:DeleteObject", await send({ method: "DELETE", key, signal }), 204, 200, 404);
  }
  if (denied.size > 0) refuse(`the credentials lack ${[...denied].sort().join(", ")}`);
}

/** Whether access to a KMS key was denied, which is not a right of the bucket. */
function isKmsRefusal({ body }: S3Answer): boolean {
  return /\bkms\b/i.test(elementOf(body.toString("utf8"), "Message") ?? "");
}
