import type { CallSettings } from "../client/index.ts";
import type { Handler } from "../http/handler.ts";
import { isJson } from "../http/response.ts";
import type { RequestContext } from "../http/router.ts";

/**
 * A `fetch` that gives requests to the edge's own handler, so that they are checked, counted and recorded like those of
 * the network. A response is cut when the request's signal is aborted, as a connection would be.
 *
 * @param options.request in whose name they are sent: they come from its address
 * @param options.headers go with each of them, such as the key
 */
export function fetchInProcess(options: {
  handler: Handler;
  request: Request;
  context: RequestContext;
  headers: Headers;
}): NonNullable<CallSettings["fetch"]> {
  const { handler, request: outer, context } = options;
  return async (url, init) => {
    const signal = init.signal ?? undefined;
    signal?.throwIfAborted();
    const headers = new Headers(options.headers);
    for (const [name, value] of new Headers(init.headers)) headers.set(name, value);
    const request = new Request(url, { ...init, headers });
    const response = await handler(request, {
      peerOf: () => context.peerOf?.(outer),
      mayBeSilent: () => undefined,
      ...(signal !== undefined && { clientGone: signal }),
    });
    signal?.throwIfAborted();
    const { status } = response;
    // Node's are no real responses.
    if (isJson(response.headers)) return new Response(await response.text(), { status, headers: response.headers });
    if (signal === undefined || response.body === null) return response;
    const body = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), { signal });
    return new Response(body, { status, headers: response.headers });
  };
}
