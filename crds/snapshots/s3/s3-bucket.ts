import type { IncomingMessage } from "node:http";
import { StoreError } from "../snapshot-store.ts";
import { elementOf, elementsOf, type S3Answer, type S3Client, type S3Request } from "./s3-client.ts";

/** An object in a list. */
export interface S3Object {
  readonly key: string;
  readonly etag: string;
  readonly sizeBytes: number;
  /** ISO 8601 time of its last write. */
  readonly at: string;
}

/** The requests to a bucket that archives need, with the failures of a store. */
export interface S3Bucket {
  readonly name: string;
  /** Headers of each request that makes an object. */
  readonly encryption: Readonly<Record<string, string>>;
  send(request: S3Request): Promise<S3Answer>;
  open(request: S3Request): Promise<IncomingMessage | S3Answer>;
  /**
   * Gives an answer of one of the statuses back.
   *
   * @param what the end of "Cannot …"
   * @throws StoreError when it has another
   */
  expect(answer: S3Answer, what: string, ...statuses: readonly number[]): S3Answer;
  exists(key: string, signal: AbortSignal): Promise<boolean>;
  put(key: string, body: Buffer, options: { what: string; signal: AbortSignal }): Promise<S3Answer>;
  /** Also good where it was not there. */
  erase(key: string, signal: AbortSignal): Promise<void>;
  list(prefix: string, signal: AbortSignal): Promise<S3Object[]>;
  /** What time it is by the storage's own clock, in milliseconds since 1970. */
  now(signal: AbortSignal): Promise<number>;
  close(): void;
}

export function createS3Bucket(options: {
  client: S3Client;
  name: string;
  encryption: Readonly<Record<string, string>>;
}): S3Bucket {
  const { client, name, encryption } = options;
  const { send, open } = client;

  function expect(answer: S3Answer, what: string, ...statuses: readonly number[]): S3Answer {
    if (statuses.includes(answer.status)) return answer;
    const why = elementOf(answer.body.toString("utf8"), "Message") ?? "";
    throw new StoreError(`Cannot ${what} in bucket "${name}": ${answer.status} ${answer.code} ${why}`.trim(), {
      isTransient: answer.status >= 500 || answer.status === 409,
    });
  }

  return {
    ...{ name, encryption, send, open, expect, close: client.close },

    async exists(key, signal) {
      // The answer to a HEAD says not why: whether a bucket is missing, or credentials have ended.
      const answer = await send({ method: "GET", key, signal });
      if (isMissing(answer)) return false;
      expect(answer, `look at ${key}`, 200);
      return true;
    },

    put: async (key, body, { what, signal }) =>
      expect(await send({ method: "PUT", key, headers: encryption, body, signal }), what, 200),

    async erase(key, signal) {
      expect(await send({ method: "DELETE", key, signal }), "erase an archive", 204, 200, 404);
    },

    async now(signal) {
      const query = { "list-type": "2", "max-keys": "1" };
      const { headers } = expect(await send({ method: "GET", query, signal }), "list", 200);
      const time = Date.parse(headers.date ?? "");
      if (!Number.isNaN(time)) return time;
      throw new StoreError("Cannot tell the time of the object storage: its answers carry no date", {
        isTransient: false,
      });
    },

    async list(prefix, signal) {
      const objects: S3Object[] = [];
      let token: string | undefined;
      do {
        const query = { "list-type": "2", prefix, ...(token !== undefined && { "continuation-token": token }) };
        const xml = expect(await send({ method: "GET", query, signal }), "list", 200).body.toString("utf8");
        if (!xml.trimEnd().endsWith("</ListBucketResult>")) {
          throw new StoreError(`Cannot list bucket "${name}": what was answered is no list of objects`, {
            isTransient: true,
          });
        }
        for (const inside of elementsOf(xml, "Contents")) {
          const text = (element: string): string => elementOf(inside, element) ?? "";
          objects.push({
            ...{ key: text("Key"), etag: text("ETag"), sizeBytes: Number(text("Size")) },
            at: new Date(text("LastModified")).toISOString(),
          });
        }
        const isLast = elementOf(xml, "IsTruncated") !== "true";
        const next = isLast ? undefined : elementOf(xml, "NextContinuationToken");
        if (!isLast && (next === undefined || next === token)) {
          throw new StoreError("Cannot list: the server says that there is more, and not how to go on", {
            isTransient: false,
          });
        }
        token = next;
      } while (token !== undefined);
      return objects;
    },
  };
}

/** Whether it is the object that is missing, and not the bucket. */
export function isMissing({ status, code }: S3Answer): boolean {
  return status === 404 && code === "NoSuchKey";
}
