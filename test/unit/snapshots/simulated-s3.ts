import { randomBytes } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createS3Bucket, type S3Bucket } from "../../../crds/snapshots/s3/s3-bucket.ts";
import { createS3Client, type S3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Store, type S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { hurriedClock } from "../manual-clock.ts";

export interface S3Asked {
  readonly method: string;
  /** Of the object; empty where the bucket is meant. */
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
}

interface StoredObject {
  readonly body: Buffer;
  readonly etag: string;
  readonly commit: string;
  /** ISO 8601 time of its last write. @default now */
  readonly at?: string;
}

type Decision = { readonly body: string; readonly isDone: boolean } | undefined;

/** A server with the bucket `bucket` that is always right, for what a real one does not do at will. */
export interface SimulatedS3 {
  readonly endpoint: string;
  /** Keys with what they hold. */
  readonly objects: Map<string, StoredObject>;
  readonly asked: S3Asked[];
  /** Asked for each request: the body of a 200 that is answered before it, or in the place of what it asks for. */
  decide: (asked: S3Asked) => Decision | Promise<Decision>;
  close(): Promise<void>;
}

const BUCKET = "/bucket/";

export async function startSimulatedS3(): Promise<SimulatedS3> {
  const objects: SimulatedS3["objects"] = new Map();
  /** Their names, until one comes or goes. */
  let sorted: string[] | undefined;
  const uploads = new Map<string, Map<number, Buffer>>();

  function write(key: string, body: Buffer, commit = ""): string {
    const etag = `"${randomBytes(8).toString("hex")}"`;
    if (!objects.has(key)) sorted = undefined;
    objects.set(key, { body, etag, commit });
    return etag;
  }

  function sourceOf({ headers }: S3Asked): Buffer | "none" | undefined {
    const { "x-amz-copy-source": source } = headers;
    if (typeof source !== "string") return undefined;
    const { body } = objects.get(source.slice(BUCKET.length)) ?? {};
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(String(headers["x-amz-copy-source-range"])) ?? [];
    return first === undefined ? (body ?? "none") : (body?.subarray(Number(first), Number(last) + 1) ?? "none");
  }

  /** @returns the status, and the body of the answer or the code of an error */
  function put(asked: S3Asked, body: Buffer, response: ServerResponse): [number, string] {
    const { key, query, headers } = asked;
    const present = objects.get(key);
    const { "if-match": match, "if-none-match": none } = headers;
    if (none !== undefined && present !== undefined) return [412, "PreconditionFailed"];
    if (match !== undefined && present?.etag !== match) return [412, "PreconditionFailed"];
    const source = sourceOf(asked);
    if (source === "none") return [404, "NoSuchKey"];
    const parts = uploads.get(query.get("uploadId") ?? "");
    if (query.has("uploadId") && parts === undefined) return [404, "NoSuchUpload"];
    const { "x-amz-meta-commit": commit } = headers;
    parts?.set(Number(query.get("partNumber")), source ?? body);
    const etag = parts === undefined ? write(key, source ?? body, String(commit ?? "")) : '"part"';
    response.setHeader("etag", etag);
    return [200, source === undefined ? "" : `<CopyResult><ETag>${etag}</ETag></CopyResult>`];
  }

  function post({ key, query }: S3Asked): [number, string] {
    const id = query.get("uploadId") ?? randomBytes(4).toString("hex");
    if (query.has("uploads")) {
      uploads.set(id, new Map());
      return [200, `<Begun><UploadId>${id}</UploadId></Begun>`];
    }
    const parts = uploads.get(id);
    if (parts === undefined) return [404, "NoSuchUpload"];
    uploads.delete(id);
    const bytes = [...parts].sort(([a], [b]) => a - b).map(([, part]) => part);
    return [200, `<Completed><ETag>${write(key, Buffer.concat(bytes))}</ETag></Completed>`];
  }

  /** Names in order, at most a thousand. */
  function listOf(query: URLSearchParams): string {
    const [prefix, after] = ["prefix", "start-after"].map((name) => query.get(name) ?? "") as [string, string];
    if (sorted?.length !== objects.size) sorted = [...objects.keys()].sort();
    const found: string[] = [];
    const most = Math.min(Number(query.get("max-keys") ?? 1000), 1000);
    let isTruncated = false;
    for (let at = firstFrom(sorted, prefix > after ? prefix : after); at < sorted.length; at += 1) {
      const name = sorted[at] ?? "";
      if (name === after || !query.has("list-type")) continue;
      if (!name.startsWith(prefix)) break;
      isTruncated = found.length === most;
      if (isTruncated) break;
      found.push(name);
    }
    const contents = found.map((name) => {
      const { body, etag, at = new Date().toISOString() } = objects.get(name) ?? { body: "", etag: "" };
      return (
        `<Contents><Key>${name}</Key><ETag>${etag}</ETag><Size>${body.length}</Size>` +
        `<LastModified>${at}</LastModified></Contents>`
      );
    });
    return `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${contents.join("")}</ListBucketResult>`;
  }

  function get({ key, query }: S3Asked, response: ServerResponse): [number, string | Buffer] {
    if (key === "") return [200, listOf(query)];
    const found = objects.get(key);
    if (found === undefined) return [404, "NoSuchKey"];
    response.setHeader("etag", found.etag).setHeader("x-amz-meta-commit", found.commit);
    return [200, found.body];
  }

  function carryOut(asked: S3Asked, body: Buffer, response: ServerResponse): [number, string | Buffer] {
    const { method, key, query } = asked;
    if (method === "PUT") return put(asked, body, response);
    if (method === "POST") return post(asked);
    if (method === "GET") return get(asked, response);
    if (query.has("uploadId")) uploads.delete(query.get("uploadId") ?? "");
    else if (objects.delete(key)) sorted = undefined;
    return [204, ""];
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams: query } = new URL(request.url ?? "", "http://server");
    const { method = "", headers } = request;
    const asked = { method, key: decodeURIComponent(pathname.slice(BUCKET.length)), query, headers };
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    server.asked.push(asked);
    const instead = await server.decide(asked);
    if (instead?.isDone === false) return void response.end(instead.body);
    const [status, body] = carryOut(asked, Buffer.concat(chunks), response);
    if (instead !== undefined) return void response.end(instead.body);
    response.writeHead(status).end(status < 300 ? body : `<Error><Code>${body}</Code></Error>`);
  }

  const listening = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  const server: SimulatedS3 = {
    endpoint: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`,
    ...{ objects, asked: [], decide: () => undefined },
    async close() {
      listening.closeAllConnections();
      await new Promise((resolve) => listening.close(resolve));
    },
  };
  return server;
}

/** The place of the first name that is not before the other. */
function firstFrom(names: readonly string[], name: string): number {
  let [from, to] = [0, names.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((names[middle] ?? "") < name) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** A bucket whose server answers so. */
export function bucketOf(send: S3Client["send"]): S3Bucket {
  return createS3Bucket({ client: { send, open: send, close: () => undefined }, name: "b", encryption: {} });
}

/** A store on it; how much is sent or copied at once is small, so that a few kilobytes take several requests. */
export function simulatedS3Store({ endpoint }: SimulatedS3, more: { cachedHeads?: number } = {}): S3Store {
  const credentials = async () => ({ accessKeyId: "id", secretAccessKey: "secret" });
  const client = createS3Client({
    ...{ endpoint, region: "r", bucket: "bucket", isPathStyle: true, credentials, clock: hurriedClock },
  });
  const sizes = { partBytes: 1000, copyBytes: 2000, ...more };
  return createS3Store({ client, bucket: "bucket", prefix: "", ...sizes, clock: hurriedClock });
}
