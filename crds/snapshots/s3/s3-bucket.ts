import type { IncomingMessage } from "node:http";
import { StoreError } from "../snapshot-store.ts";
import { elementOf, elementsOf, type S3Answer, type S3Client, type S3Request } from "./s3-client.ts";

/** An object of a list. */
export interface S3Object {
  readonly key: string;
  readonly etag: string;
  readonly sizeBytes: number;
  /** ISO 8601 time of its last write. */
  readonly at: string;
}

interface PageOptions {
  /** Only objects whose names come after this one. An object of this name need not exist. */
  readonly after?: string | undefined;
  /** The most objects. @default 1000, the most that servers return */
  readonly most?: number | undefined;
  readonly signal: AbortSignal;
}

export interface S3Page {
  readonly objects: readonly S3Object[];
  /** The `after` of the next page; undefined at the end. */
  readonly next: string | undefined;
}

/** Requests to a bucket. They throw the errors of a store. */
export interface S3Bucket {
  readonly name: string;
  /** Headers of each request that creates an object. */
  readonly encryption: Readonly<Record<string, string>>;
  send(request: S3Request): Promise<S3Answer>;
  open(request: S3Request): Promise<IncomingMessage | S3Answer>;
  /**
   * Returns the response if it has one of the statuses.
   *
   * @param what the end of "Cannot …"
   * @throws StoreError if it has another status
   */
  expect(answer: S3Answer, what: string, ...statuses: readonly number[]): S3Answer;
  exists(key: string, signal: AbortSignal): Promise<boolean>;
  put(key: string, body: Buffer, options: { what: string; signal: AbortSignal }): Promise<S3Answer>;
  /** Succeeds too if the object does not exist. */
  erase(key: string, signal: AbortSignal): Promise<void>;
  /** All objects under a prefix, in memory at once. */
  list(prefix: string, signal: AbortSignal): Promise<S3Object[]>;
  /** The objects under a prefix, sorted by name, as many as one request returns. */
  page(prefix: string, options: PageOptions): Promise<S3Page>;
  /** All objects under a prefix, page by page. */
  pages(prefix: string, options: PageOptions): AsyncIterable<readonly S3Object[]>;
  /** The time of the storage's own clock, in milliseconds since 1970. */
  now(signal: AbortSignal): Promise<number>;
  close(): void;
}

const NOT_ORDERED = { isTransient: false };

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
      // The response to a HEAD does not give the reason, such as a missing bucket or expired credentials.
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
      throw new StoreError("Cannot read the time of the object storage: its responses have no Date header", {
        isTransient: false,
      });
    },

    async list(prefix, signal) {
      const objects: S3Object[] = [];
      for await (const some of pages(prefix, { signal })) objects.push(...some);
      return objects;
    },

    ...{ page, pages },
  };

  async function page(prefix: string, { after, most, signal }: PageOptions): Promise<S3Page> {
    const query = {
      ...{ "list-type": "2", prefix },
      ...(after !== undefined && { "start-after": after }),
      ...(most !== undefined && { "max-keys": String(most) }),
    };
    const xml = expect(await send({ method: "GET", query, signal }), "list", 200).body.toString("utf8");
    if (!xml.trimEnd().endsWith("</ListBucketResult>")) {
      throw new StoreError(`Cannot list bucket "${name}": the response is not a complete list of objects`, {
        isTransient: true,
      });
    }
    const objects = elementsOf(xml, "Contents").map((inside): S3Object => {
      const text = (element: string): string => elementOf(inside, element) ?? "";
      return {
        ...{ key: text("Key"), etag: text("ETag"), sizeBytes: Number(text("Size")) },
        at: new Date(text("LastModified")).toISOString(),
      };
    });
    // The next page begins after the last name. If the names were not sorted, some would be left out or repeated
    // forever.
    let last = after ?? "";
    for (const { key } of objects) {
      if (key <= last) throw new StoreError("Cannot list: the server's list is not sorted by name", NOT_ORDERED);
      last = key;
    }
    const isLast = elementOf(xml, "IsTruncated") !== "true";
    if (!isLast && objects.length === 0) {
      throw new StoreError("Cannot list: the server returned an empty page that is not the last one", NOT_ORDERED);
    }
    return { objects, next: isLast ? undefined : last };
  }

  async function* pages(prefix: string, { after, ...options }: PageOptions): AsyncGenerator<readonly S3Object[]> {
    let next = after;
    do {
      const found = await page(prefix, { ...options, after: next });
      yield found.objects;
      next = found.next;
    } while (next !== undefined);
  }
}

/** Whether the object does not exist. A missing bucket does not count. */
export function isMissing({ status, code }: S3Answer): boolean {
  return status === 404 && code === "NoSuchKey";
}
