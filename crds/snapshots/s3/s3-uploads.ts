import { createHash } from "node:crypto";
import { ArchiveError } from "../../archive/archive-error.ts";
import { StoreError } from "../snapshot-store.ts";
import { isMissing, type S3Bucket } from "./s3-bucket.ts";
import { elementOf } from "./s3-client.ts";

const PARTS_AT_ONCE = 2;
/** The protocol's limit for an upload. Some servers require all parts to have the same size, so parts do not grow. */
const MOST_PARTS = 10_000;

/** Writes archives as new objects. */
export interface S3Uploads {
  /** Writes a small archive with one request, and a larger one in parts. If anything fails, the parts are deleted. */
  write(
    at: string,
    archive: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ readonly sha256: string; readonly sizeBytes: number }>;
  /** Lets the server copy an archive; false if the archive does not exist. */
  copy(at: string, from: { readonly at: string; readonly sizeBytes: number }, signal: AbortSignal): Promise<boolean>;
  abort(at: string, uploadId: string): Promise<void>;
}

/**
 * Follows https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
 *
 * @param options.partBytes the size of each part except the last; two parts are sent while a third is filled
 * @param options.copyBytes the most bytes copied in one request
 */
export function createS3Uploads(options: { bucket: S3Bucket; partBytes: number; copyBytes: number }): S3Uploads {
  const { bucket, partBytes, copyBytes } = options;

  async function begin(at: string, signal: AbortSignal): Promise<string> {
    const { encryption: headers } = bucket;
    const answer = await bucket.send({ method: "POST", key: at, query: { uploads: "" }, headers, signal });
    const id = elementOf(bucket.expect(answer, "begin an upload", 200).body.toString("utf8"), "UploadId");
    if (id === undefined) throw new StoreError("Cannot begin an upload: the response has no id", { isTransient: true });
    return id;
  }

  async function complete(
    at: string,
    { uploadId, tags, sizeBytes, signal }: { uploadId: string; tags: string[]; sizeBytes: number; signal: AbortSignal },
  ): Promise<void> {
    const parts = tags.map((tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`);
    const body = Buffer.from(`<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`);
    const headers = { "content-type": "application/xml" };
    const query = { uploadId };
    const answer = await bucket.send({ method: "POST", key: at, query, headers, body, answersEarly: true, signal });
    if (answer.status === 404 && answer.isRepeated) {
      // An earlier try may have completed it, and its response was lost.
      const found = (await bucket.list(at, signal)).find((object) => object.key === at);
      if (found?.sizeBytes === sizeBytes) return;
    }
    bucket.expect(answer, "complete an upload", 200);
  }

  async function abort(at: string, uploadId: string): Promise<void> {
    const signal = AbortSignal.timeout(5000);
    // If this fails, the upload is aborted later as a leftover.
    await bucket.send({ method: "DELETE", key: at, query: { uploadId }, signal, mostTries: 2 }).catch(ignore);
  }

  /** @param query names the part, if the copy has several parts */
  async function copyOnce(
    at: string,
    {
      headers,
      query,
      signal,
    }: { headers: Record<string, string>; query?: Record<string, string>; signal: AbortSignal },
  ): Promise<string | undefined> {
    const answer = await bucket.send({ method: "PUT", key: at, headers, query, answersEarly: true, signal });
    if (isMissing(answer)) return undefined;
    return elementOf(bucket.expect(answer, "copy an archive", 200).body.toString("utf8"), "ETag") ?? "";
  }

  return {
    abort,

    async copy(at, { at: from, sizeBytes }, signal) {
      const headers = { "x-amz-copy-source": `/${bucket.name}/${from}` };
      if (sizeBytes <= copyBytes) {
        return (await copyOnce(at, { headers: { ...bucket.encryption, ...headers }, signal })) !== undefined;
      }
      const uploadId = await begin(at, signal);
      try {
        const tags: string[] = [];
        for (let first = 0; first < sizeBytes; first += copyBytes) {
          const range = `bytes=${first}-${Math.min(sizeBytes, first + copyBytes) - 1}`;
          const tag = await copyOnce(at, {
            headers: { ...headers, "x-amz-copy-source-range": range },
            query: { partNumber: String(tags.length + 1), uploadId },
            signal,
          });
          if (tag === undefined) {
            await abort(at, uploadId);
            return false;
          }
          tags.push(tag);
        }
        await complete(at, { uploadId, tags, sizeBytes, signal });
        return true;
      } catch (error) {
        await abort(at, uploadId);
        throw error;
      }
    },

    async write(at, archive, signal) {
      const hash = createHash("sha256");
      let sizeBytes = 0;
      let uploadId: string | undefined;
      const tags: string[] = [];
      const sending = new Set<Promise<void>>();
      let failure: unknown;

      async function sendPart(number: number, body: Buffer): Promise<void> {
        uploadId ??= await begin(at, signal);
        const query = { partNumber: String(number), uploadId };
        const answer = await bucket.send({ method: "PUT", key: at, query, body, signal });
        tags[number - 1] = bucket.expect(answer, "write an archive", 200).etag;
      }

      try {
        let number = 0;
        for await (const { bytes, isLast } of partsOf(archive, partBytes)) {
          hash.update(bytes);
          sizeBytes += bytes.length;
          if (isLast && number === 0) {
            await bucket.put(at, bytes, { what: "write an archive", signal });
            break;
          }
          number += 1;
          if (number > MOST_PARTS) {
            const most = Math.floor((MOST_PARTS * partBytes) / 1024 ** 2);
            throw new ArchiveError(
              "TooLarge",
              `it takes more than ${most} MiB, the most for an archive in object storage`,
            );
          }
          // The first part is awaited, so that the upload is begun only once.
          if (number === 1) await sendPart(number, bytes);
          else {
            const ended: Promise<void> = sendPart(number, bytes)
              .catch((error: unknown) => {
                failure ??= error;
              })
              .finally(() => sending.delete(ended));
            sending.add(ended);
          }
          if (sending.size >= PARTS_AT_ONCE) await Promise.race(sending);
          if (failure !== undefined) throw failure;
        }
        await Promise.all(sending);
        if (failure !== undefined) throw failure;
        if (uploadId !== undefined) await complete(at, { uploadId, tags, sizeBytes, signal });
        return { sha256: hash.digest("hex"), sizeBytes };
      } catch (error) {
        await Promise.all(sending);
        if (uploadId !== undefined) await abort(at, uploadId);
        throw error;
      }
    },
  };
}

/** Cuts a stream into parts of this size. Only the last part may be shorter or empty. */
async function* partsOf(
  archive: AsyncIterable<Uint8Array>,
  partBytes: number,
): AsyncGenerator<{ bytes: Buffer; isLast: boolean }> {
  let pieces: Uint8Array[] = [];
  let held = 0;
  for await (const piece of archive) {
    let rest = piece;
    while (held + rest.length > partBytes) {
      const fitting = rest.subarray(0, partBytes - held);
      yield { bytes: Buffer.concat([...pieces, fitting]), isLast: false };
      rest = rest.subarray(fitting.length);
      [pieces, held] = [[], 0];
    }
    pieces.push(rest);
    held += rest.length;
  }
  yield { bytes: Buffer.concat(pieces), isLast: true };
}

function ignore(): void {
  // The leftover is aborted after a day.
}
