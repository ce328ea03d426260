import type { Log } from "../../crds/log.ts";
import type { WebhookPaths } from "../gateway/webhook/webhook-paths.ts";
import { createApiKeyCheck } from "./api-key.ts";
import type { Cors } from "./cors.ts";
import { errorResponse } from "./error-response.ts";
import { HttpError } from "./http-error.ts";
import { createPageCheck } from "./page-check.ts";
import { pathOf } from "./path-of.ts";
import type { RequestContext } from "./request-context.ts";
import { createRequestId } from "./request-id.ts";
import type { Route } from "./route.ts";
import { createRouter } from "./router.ts";
import { withoutBody } from "./without-body.ts";

/** The edge as every runtime serves it. It always answers, with `{error}` where it cannot do better. */
export type Handler = (request: Request, context?: RequestContext) => Promise<Response>;

/** A request that was answered. */
export interface Exchange {
  readonly method: string;
  /** The pattern of the route, `webhook` for any of those, `*` for none: few enough for a metric's label. */
  readonly route: string;
  readonly status: number;
  readonly ms: number;
  readonly requestId: string;
}

/** Makes the edge's fetch handler of a route table. */
export function createHandler(options: {
  routes: readonly Route[];
  /** Without it, every route answers everyone whom `checkPage` lets pass. */
  apiKey?: string | undefined;
  /** Throws where, without a key, a page of another site made the request. @default refuses the writes of such pages */
  checkPage?: (request: Request) => void;
  /** @default no page of another origin may read an answer */
  cors?: Cors | undefined;
  /** Paths that are looked into before the routes; neither the key nor `checkPage` nor `cors` is for them. @default none */
  webhooks?: Pick<WebhookPaths, "find"> | undefined;
  log: Log;
  /** The first part of the request ids that this process gives out. */
  instance: string;
  /** Milliseconds, monotonic. @default performance.now */
  now?: () => number;
  /** Called once for each answer. */
  onExchange?: (exchange: Exchange) => void;
}): Handler {
  const { log, onExchange, webhooks } = options;
  const { checkPage = createPageCheck({ localOnly: false, origins: new Set() }) } = options;
  const now = options.now ?? performance.now.bind(performance);
  const requestIdOf = createRequestId(options.instance);
  const authenticate = options.apiKey === undefined ? checkPage : createApiKeyCheck(options.apiKey);
  const dispatch = createRouter(options.routes, { authenticate });

  return async (request, context = {}) => {
    const started = now();
    // Deno refuses to tell these once the client has gone.
    const { method, url } = request;
    const requestId = requestIdOf(request);
    const answerWebhook = webhooks?.find(pathOf(url));
    const cors = answerWebhook === undefined ? options.cors : undefined;
    let response: Response;
    try {
      response =
        answerWebhook === undefined
          ? (cors?.preflight(request) ?? (await dispatch(request, context)))
          : await answerWebhook(request, context);
    } catch (error) {
      response = errorResponse(URL.canParse(url) ? error : unreadableUrl(), { requestId, log });
    }
    if (method === "HEAD") response = await withoutBody(response);
    response.headers.set("x-request-id", requestId);
    if (answerWebhook !== undefined) response.headers.set("x-content-type-options", "nosniff");
    cors?.allow(request, response);
    onExchange?.({
      method,
      route: answerWebhook === undefined ? ((request as { route?: string }).route ?? "*") : "webhook",
      status: response.status,
      ms: now() - started,
      requestId,
    });
    return response;
  };
}

/** What a broken Host header or request target comes to, on the runtimes that let it through. */
function unreadableUrl(): HttpError {
  return new HttpError(400, "request: its target or its Host header is not valid");
}
