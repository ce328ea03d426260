import { createHash } from "node:crypto";
import { Agent, type IncomingHttpHeaders, type IncomingMessage, request as requestOverHttp } from "node:http";
import { request as requestOverHttps, Agent as SecureAgent } from "node:https";
import { AwsV4Signer } from "aws4fetch";
import { NetworkError } from "../../client/api-error.ts";
import { createBackoff } from "../../client/backoff.ts";
import { type Clock, systemClock } from "../../client/clock.ts";
import { limitConnect } from "../../client/limit-connect.ts";
import { onAbort, orAborted, sleep } from "../../waits.ts";
import { StoreError } from "../snapshot-store.ts";

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface S3ClientOptions {
  /** Such as `https://s3.eu-central-1.amazonaws.com`. */
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  /** Whether the bucket is in the path, and not in the host's name. */
  readonly isPathStyle: boolean;
  /** Called before each request. @param stale the credentials that the server has just refused */
  readonly credentials: (stale?: S3Credentials) => Promise<S3Credentials>;
  readonly clock?: Clock | undefined;
}

export interface S3Request {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** Without a key, the request is for the bucket. */
  readonly key?: string | undefined;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Buffer | undefined;
  readonly signal: AbortSignal;
  /**
   * Whether the server may send 200 and white space before it has finished, as for a copy and the completion of an
   * upload. Then only an ETag in the body shows that it has succeeded. @default false
   */
  readonly answersEarly?: boolean | undefined;
  /** The most tries. @default 6 */
  readonly mostTries?: number | undefined;
}

export interface S3Answer {
  readonly status: number;
  readonly etag: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The code of an error, such as `NoSuchKey`; else empty. */
  readonly code: string;
  /** Whether an earlier try of the same request may have succeeded. */
  readonly isRepeated: boolean;
}

/** Signed requests to one bucket. */
export interface S3Client {
  /**
   * Sends a request, and retries it if a retry may help. Any other response is returned, whatever its status.
   *
   * @throws StoreError if the server keeps failing, or there are no credentials
   * @throws NetworkError if the last try got no response
   * @throws the signal's reason if it is aborted
   */
  send(request: S3Request): Promise<S3Answer>;
  /** Like `send`, but the body of a response with status 200 or 206 is not read. */
  open(request: S3Request): Promise<IncomingMessage | S3Answer>;
  close(): void;
}

const MOST_TRIES = 6;
const CONNECT_MS = 5000;
const SILENCE_MS = 30_000;
/** The largest response that is not an archive: a list of 1 000 objects whose names have a kilobyte each. */
const MOST_ANSWER_BYTES = 8 * 1024 * 1024;
/** Error codes that may not return with new credentials. */
const REFRESHED = new Set([
  ...["ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"],
]);

/** Follows https://docs.aws.amazon.com/AmazonS3/latest/API/Welcome.html */
export function createS3Client(options: S3ClientOptions): S3Client {
  const { region, credentials, clock = systemClock } = options;
  const base = new URL(options.endpoint);
  const isSecure = base.protocol === "https:";
  const agent = new (isSecure ? SecureAgent : Agent)({ keepAlive: true, noDelay: true, timeout: 20_000 });

  async function attempt(request: S3Request, using: S3Credentials): Promise<IncomingMessage> {
    const { method, headers = {}, body, signal } = request;
    const sha256 = createHash("sha256")
      .update(body ?? "")
      .digest("hex");
    const signed = await new AwsV4Signer({
      ...{ method, url: objectUrl(options, request), service: "s3", region },
      headers: { ...headers, "x-amz-content-sha256": sha256 },
      ...{ accessKeyId: using.accessKeyId, secretAccessKey: using.secretAccessKey },
      ...(using.sessionToken !== undefined && { sessionToken: using.sessionToken }),
    }).sign();
    const sent = { ...Object.fromEntries(signed.headers), "content-length": String(body?.length ?? 0) };
    return await exchange(signed.url, { method, headers: sent, body, signal });
  }

  function exchange(
    url: URL,
    { method, headers, body, signal }: Pick<S3Request, "method" | "headers" | "body" | "signal">,
  ): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const asked = { method, headers: { ...headers }, agent };
      const request = isSecure ? requestOverHttps(url, asked) : requestOverHttp(url, asked);
      const ignoreAbort = onAbort(signal, () => request.destroy(signal.reason));
      limitConnect(request, CONNECT_MS);
      request.setTimeout(SILENCE_MS, () => request.destroy(new Error(`no traffic for ${SILENCE_MS / 1000} s`)));
      request.on("error", (cause) => {
        ignoreAbort();
        reject(
          signal.aborted ? signal.reason : new NetworkError(`Cannot ask ${url.host}: ${cause.message}`, sent(cause)),
        );
      });
      request.on("response", (response) => {
        response.once("close", ignoreAbort);
        resolve(response);
      });
      request.end(body);
    });
  }

  async function read(response: IncomingMessage, isRepeated: boolean): Promise<S3Answer> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > MOST_ANSWER_BYTES) break;
        chunks.push(chunk);
      }
    } catch (cause) {
      throw new NetworkError(`Cannot read the response of ${base.host}`, sent(cause));
    }
    if (bytes > MOST_ANSWER_BYTES) {
      const why = `it has more than ${MOST_ANSWER_BYTES} bytes`;
      throw new StoreError(`Cannot read the response of ${base.host}: ${why}`, { isTransient: false });
    }
    const body = Buffer.concat(chunks);
    // Bun reports a response that was cut off as complete.
    const announced = Number(response.headers["content-length"] ?? body.length);
    const isCut = !response.complete || announced !== body.length;
    if (isCut) throw new NetworkError(`Cannot read the response of ${base.host}: it was cut off`, sent(undefined));
    const { statusCode: status = 0, headers } = response;
    const code = elementOf(body.toString("utf8", 0, 2048), "Code") ?? "";
    return { status, etag: headers.etag ?? "", headers, body, code, isRepeated };
  }

  async function repeat<T>(
    request: S3Request,
    take: (response: IncomingMessage, isRepeated: boolean) => Promise<T | S3Answer>,
  ): Promise<T | S3Answer> {
    const { signal, mostTries = MOST_TRIES, method, key = "" } = request;
    const backoff = createBackoff({ initialMs: 100, maxMs: 5000 });
    let isRepeated = false;
    let stale: S3Credentials | undefined;
    for (let tries = 1; ; tries += 1) {
      const using = await orAborted(credentials(stale), signal);
      let failure: unknown;
      try {
        const response = await attempt(request, using);
        const answer = await take(response, isRepeated);
        if (!isAnswer(answer)) return answer;
        const late = lateFailureOf(answer, request);
        if (late === undefined && !shouldRepeat(answer)) return answer;
        failure = new StoreError(`object storage cannot ${method} ${key}: ${answer.status} ${late ?? answer.code}`, {
          isTransient: late !== undefined || answer.status >= 500 || answer.status === 429,
        });
        if (REFRESHED.has(answer.code)) {
          if (stale !== undefined) return answer;
          stale = using;
        }
        // After a 5xx, or a 200 without a result, the request may have succeeded.
        isRepeated ||= late !== undefined || (answer.status >= 500 && answer.code !== "SlowDown");
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof NetworkError)) throw error;
        failure = error;
        isRepeated = true;
      }
      if (tries >= mostTries) throw failure;
      await sleep(backoff.next(), { clock, signal });
    }
  }

  return {
    send: (request) => repeat<never>(request, read),
    open: (request) =>
      repeat(request, async (response, isRepeated) => {
        const { statusCode } = response;
        if (statusCode === 200 || statusCode === 206) return response;
        return await read(response, isRepeated);
      }),
    close: () => agent.destroy(),
  };
}

/** The URL of an object, or of the bucket if there is no key. */
export function objectUrl(
  { endpoint, bucket, isPathStyle }: Pick<S3ClientOptions, "endpoint" | "bucket" | "isPathStyle">,
  { key = "", query = {} }: Pick<S3Request, "key" | "query">,
): string {
  const url = new URL(endpoint);
  if (!isPathStyle) url.hostname = `${bucket}.${url.hostname}`;
  url.pathname = [url.pathname.replace(/\/+$/, ""), ...(isPathStyle ? [bucket] : []), key].join("/");
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url.href;
}

export function isAnswer(given: unknown): given is S3Answer {
  return given !== null && typeof given === "object" && "isRepeated" in given;
}

function shouldRepeat({ status, code }: S3Answer): boolean {
  const isFailure = (status >= 500 && status !== 501) || status === 429;
  return isFailure || REFRESHED.has(code) || code === "RequestTimeout";
}

/** The error in a response with status 200 whose request may have failed. */
function lateFailureOf({ status, code, body }: S3Answer, { answersEarly = false }: S3Request): string | undefined {
  if (status !== 200) return undefined;
  if (!answersEarly) return code !== "" && /<Error>/.test(body.toString("utf8", 0, 2048)) ? code : undefined;
  const text = body.toString("utf8");
  return (elementOf(text, "ETag") ?? "") === "" ? (elementOf(text, "Code") ?? "without an ETag") : undefined;
}

function sent(cause: unknown): { cause: unknown; requestWasSent: boolean } {
  return { cause, requestWasSent: true };
}

/** The text of the first element of that name. */
export function elementOf(xml: string, name: string): string | undefined {
  const [, text] = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml) ?? [];
  return text === undefined ? undefined : decoded(text);
}

/** The content of each element of that name, in order. Takes linear time, also if elements are not closed. */
export function elementsOf(xml: string, name: string): string[] {
  const [opening, closing] = [`<${name}>`, `</${name}>`];
  const found: string[] = [];
  for (let start = xml.indexOf(opening); start !== -1; ) {
    const end = xml.indexOf(closing, start);
    if (end === -1) break;
    found.push(xml.slice(start + opening.length, end));
    start = xml.indexOf(opening, end);
  }
  return found;
}

function decoded(text: string): string {
  const entities: Readonly<Record<string, string>> = { quot: '"', apos: "'", lt: "<", gt: ">", amp: "&", "#34": '"' };
  return text.replace(/&(quot|apos|lt|gt|amp|#34);/g, (_, name: string) => entities[name] ?? "");
}
