import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

/** The API's refusal of a request. */
export class ApiRefusal extends Error {
  override readonly name = "ApiRefusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Calls of the API with one key. */
export interface Api {
  /** @throws ApiRefusal for an error; Error if there is no response */
  json<T>(method: "GET" | "PUT" | "POST", path: string, options?: { body?: () => Readable }): Promise<T>;
  /** Passes a response on as it arrives. @throws as `json` does, and if the response is cut off */
  text(path: string, onChunk: (chunk: Buffer) => void): Promise<void>;
}

const TRIES = 60;
const RETRY_MS = 2000;

/**
 * Creates the client. After a 503 it retries for two minutes, since the pod that receives uploads may be starting.
 *
 * @param options.onRetry called before the first retry, with the message of the server
 */
export function createApi(options: {
  url: string;
  key: string | undefined;
  signal: AbortSignal;
  onRetry: (message: string) => void;
}): Api {
  const { url, key, signal, onRetry } = options;

  function send(method: string, path: string, body: Readable | undefined): Promise<IncomingMessage> {
    const target = new URL(`${url}/api/v1${path}`);
    const headers = {
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { "content-type": "application/gzip" }),
    };
    return new Promise((resolve, reject) => {
      const make = target.protocol === "https:" ? httpsRequest : httpRequest;
      const request = make(target, { method, headers, signal });
      let isAnswered = false;
      request.on("response", (response) => {
        isAnswered = true;
        // The server may refuse before the end of the body and not read the rest, so do not wait for that.
        body?.destroy();
        if (!request.writableEnded) response.once("end", () => request.destroy());
        resolve(response);
      });
      request.on("error", (cause: NodeJS.ErrnoException) => {
        body?.destroy();
        if (!isAnswered) reject(new Error(`Cannot reach ${url}: ${cause.message || cause.code}`, { cause }));
      });
      body?.on("error", (error) => {
        if (isAnswered) return;
        reject(error);
        request.destroy();
      });
      if (body === undefined) request.end();
      else body.pipe(request);
    });
  }

  async function refusalOf(response: IncomingMessage): Promise<ApiRefusal> {
    const { statusCode = 0 } = response;
    const text = await wholeOf(response);
    let message = text.slice(0, 500) || `HTTP status ${statusCode}`;
    try {
      const { error } = JSON.parse(text) as { error?: unknown };
      if (typeof error === "string") message = error;
    } catch {
      // The response is not from the API.
    }
    return new ApiRefusal(statusCode, message);
  }

  return {
    async json<T>(method: string, path: string, { body }: { body?: () => Readable } = {}) {
      for (let tries = 1; ; tries += 1) {
        const response = await send(method, path, body?.());
        if (response.statusCode === 200) return JSON.parse(await wholeOf(response)) as T;
        const refusal = await refusalOf(response);
        if (refusal.status !== 503 || tries === TRIES) throw refusal;
        if (tries === 1) onRetry(refusal.message);
        await sleep(RETRY_MS, undefined, { signal });
      }
    },
    async text(path, onChunk) {
      const response = await send("GET", path, undefined);
      if (response.statusCode !== 200) throw await refusalOf(response);
      for await (const chunk of response) onChunk(chunk as Buffer);
    },
  };
}

async function wholeOf(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}
