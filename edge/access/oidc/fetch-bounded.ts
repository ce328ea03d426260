import type { Clock } from "../../../crds/client/clock.ts";
import { orAborted, withTimeLimit } from "../../../crds/waits.ts";
import { isSafeUrl } from "./oidc-config.ts";

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

const LIMIT_MS = 5000;
const LIMIT_BYTES = 512 * 1024;

/**
 * Fetches from an issuer, with its whole body: at most 5 s and 512 KiB after decompression, and no redirects, which
 * could lead into the cluster's network.
 *
 * @throws Error that says what the server did
 */
export async function fetchBounded(
  url: string,
  init: RequestInit,
  { fetch, clock, signal }: { fetch: Fetch; clock: Clock; signal?: AbortSignal | undefined },
): Promise<Response> {
  if (!isSafeUrl(url)) throw new Error(`Cannot fetch ${url}: its scheme is not https`);
  return await withTimeLimit({ what: `the request of ${url}`, ms: LIMIT_MS, clock, signal }, (limit) =>
    orAborted(readWhole(url, { init: { ...init, redirect: "manual", signal: limit }, fetch }), limit),
  );
}

async function readWhole(url: string, { init, fetch }: { init: RequestInit; fetch: Fetch }): Promise<Response> {
  const response = await fetch(url, init);
  const { status, headers } = response;
  if (response.type === "opaqueredirect" || (status >= 300 && status < 400)) {
    await response.body?.cancel();
    throw new Error(`Cannot fetch ${url}: the server redirects to another address`);
  }
  const type = headers.get("content-type");
  const body = await readBounded(response, url);
  return new Response(body, { status, headers: type === null ? {} : { "content-type": type } });
}

async function readBounded({ body }: Response, url: string): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (const reader = body?.getReader(); reader !== undefined; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.byteLength;
    if (size > LIMIT_BYTES) {
      await reader.cancel();
      throw new Error(`Cannot fetch ${url}: the response has more than ${LIMIT_BYTES} bytes`);
    }
    chunks.push(value);
  }
  return new Uint8Array(Buffer.concat(chunks));
}
