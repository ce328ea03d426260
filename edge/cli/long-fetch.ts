import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { Readable } from "node:stream";

/**
 * `fetch` without its limit on silence: Node and Bun end an answer in which nothing comes for 5 minutes, as in a
 * followed log. Node has no setting for it, so there reads are made without `fetch`.
 */
export async function longFetch(url: string, init: RequestInit): Promise<Response> {
  const isRead = init.method === "GET" && init.body === undefined;
  if (process.versions.bun !== undefined || !isRead) return fetch(url, { ...init, timeout: false } as RequestInit);
  const { status, headers, statusText, body } = await get(url, init);
  const pairs = Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((one): [string, string] => [name, one]),
  );
  const isEmpty = status === 204 || status === 304;
  if (isEmpty) body.resume();
  return new Response(isEmpty ? null : (Readable.toWeb(body) as ReadableStream<Uint8Array>), {
    ...{ status, statusText, headers: pairs },
  });
}

interface Got {
  readonly status: number;
  readonly statusText: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: IncomingMessage;
}

function get(url: string, { headers, signal }: RequestInit): Promise<Got> {
  const make = url.startsWith("https:") ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const sent = Object.fromEntries(new Headers(headers));
    const request = make(url, { headers: sent, ...(signal && { signal }) });
    request.on("error", reject);
    request.on("response", (body) =>
      resolve({
        ...{ status: body.statusCode ?? 502, statusText: body.statusMessage ?? "" },
        ...{ headers: body.headers, body },
      }),
    );
    request.end();
  });
}
