import type { Log } from "../../crds/log.ts";
import type { Tracer } from "../../crds/tracing/tracer.ts";
import { type Caller, rootCaller } from "../access/actor.ts";
import { type Authorize, adminsOnly } from "../access/authorize.ts";
import type { TenantRates } from "../access/tenant-rates.ts";
import type { Audit } from "../audit/audit.ts";
import type { Access } from "./access.ts";
import type { Cors } from "./cors.ts";
import { HttpError } from "./http-error.ts";
import { createPageCheck } from "./page-check.ts";
import { endRequestSpan, startRequestSpan } from "./request-span.ts";
import { errorAnswer, isJson, jsonResponse } from "./response.ts";
import { createRouter, type RequestContext, type Route, type RoutedRequest } from "./router.ts";

/** The edge's handler, the same on every runtime. It always returns a response, `{error}` in the worst case. */
export type Handler = (request: Request, context?: RequestContext) => Promise<Response>;

/** Handles a delivery to a webhook. */
export type AnswerWebhook = (request: Request, context: RequestContext) => Promise<Response>;

/** A request with its response. */
export interface AnsweredRequest {
  readonly method: string;
  /** The pattern of the route, `webhook` for any webhook, `*` for none: few enough for a metric's label. */
  readonly route: string;
  readonly status: number;
  readonly ms: number;
  readonly requestId: string;
}

/** Makes the edge's fetch handler from a route table. */
export function createHandler(options: {
  routes: readonly Route[];
  /** Finds who sent a request. @default every route answers everyone whom `checkPage` allows */
  authenticate?: Access["authenticate"];
  /** What a key may do. @default only keys of the role admin are served */
  authorize?: Authorize | undefined;
  /** @default no tenant's requests are limited */
  rates?: TenantRates | undefined;
  /** Throws if, without a key, a page of another site made the request. @default refuses writes of such pages */
  checkPage?: (request: Request) => void;
  /** @default no page of another origin may read a response */
  cors?: Cors | undefined;
  /** Paths that are checked before the routes; the key, `checkPage` and `cors` do not apply to them. @default none */
  webhooks?: { find(path: string): AnswerWebhook | undefined } | undefined;
  log: Log;
  /** @default no audit log */
  audit?: Pick<Audit, "begin"> | undefined;
  /** @default no tracing */
  tracer?: Tracer | undefined;
  /** Prefix of the request ids of this process. */
  instance: string;
  /** Whether each response closes its connection, so that clients move to another replica. @default false */
  isLeaving?: () => boolean;
  /** Milliseconds, monotonic. @default performance.now */
  now?: () => number;
  /** Makes the response of a failed request. @default `{error: string}` with its status */
  respondToError?: (error: HttpError, request: Request) => Response;
  /** Called once for each response. */
  onAnswered?: (answered: AnsweredRequest) => void;
}): Handler {
  const { log, onAnswered, webhooks, tracer, respondToError = plainError } = options;
  const { checkPage = createPageCheck({ localOnly: false, origins: new Set() }) } = options;
  const now = options.now ?? performance.now.bind(performance);
  const requestIdOf = createRequestId(options.instance);
  const {
    authenticate = (request: Request) => {
      checkPage(request);
      return rootCaller;
    },
    authorize = adminsOnly,
  } = options;
  /**
   * Admitted requests. Others leave no span, and requests of public routes leave none either: strangers could fill the
   * queue.
   */
  const admitted = new WeakSet<Request>();
  const admit = async (request: Request, context: RequestContext): Promise<Caller> => {
    const caller = await authenticate(request, context);
    admitted.add(request);
    return caller;
  };
  const dispatch = createRouter(options.routes, {
    authenticate: tracer === undefined ? authenticate : admit,
    authorize,
    rates: options.rates,
    audit: options.audit,
  });

  return async (request, context = {}) => {
    const started = now();
    // Deno refuses access to these once the client has disconnected.
    const { method, url } = request;
    const requestId = requestIdOf(request);
    const answerWebhook = webhooks?.find(pathOf(url));
    const cors = answerWebhook === undefined ? options.cors : undefined;
    // A webhook starts its own span, once it knows the sender.
    const span = answerWebhook === undefined ? tracer && startRequestSpan(request, tracer) : undefined;
    let response: Response;
    let failed: HttpError | undefined;
    try {
      response =
        answerWebhook === undefined
          ? (cors?.preflight(request) ?? (await dispatch(request, span === undefined ? context : { ...context, span })))
          : await answerWebhook(request, context);
    } catch (error) {
      failed = errorAnswer(URL.canParse(url) ? error : unreadableUrl(), { requestId, log });
      response = respondToError(failed, request);
    }
    if (method === "HEAD") response = await withoutBody(response);
    response.headers.set("x-request-id", requestId);
    // Browsers must not guess that a response is a script or a page of this origin. Caches must not store what a
    // session saw: for a cache, a cookie restricts less than `Authorization`.
    response.headers.set("x-content-type-options", "nosniff");
    if (!response.headers.has("cache-control")) response.headers.set("cache-control", "no-store");
    if (answerWebhook !== undefined) {
      // A container's bytes on the edge's own origin: a browser may have a session there, so it must not run them or
      // show them to a page.
      response.headers.set("content-security-policy", "default-src 'none'; sandbox");
      response.headers.set("cross-origin-resource-policy", "same-origin");
    }
    if (options.isLeaving?.() === true) response.headers.set("connection", "close");
    cors?.allow(request, response);
    const { route, audit } = request as Partial<Pick<RoutedRequest, "route" | "audit">>;
    // Some protocols have another place for the failure than the response's status.
    const status = failed?.status ?? response.status;
    audit?.answered({ response, status, requestId });
    if (span !== undefined && admitted.has(request)) endRequestSpan(span, { method, route, status });
    onAnswered?.({
      method,
      route: answerWebhook === undefined ? (route ?? "*") : "webhook",
      status,
      ms: now() - started,
      requestId,
    });
    return response;
  };
}

function plainError({ status, message, headers }: HttpError): Response {
  return jsonResponse({ error: message }, { status, headers });
}

/** The error for an invalid Host header or request target, on runtimes that accept it. */
function unreadableUrl(): HttpError {
  return new HttpError(400, "request: its target or its Host header is not valid");
}

const WELL_FORMED = /^[\w.:-]{1,128}$/;

/**
 * Returns a function that names a request: the caller's own `x-request-id` if it is safe to log and return, otherwise
 * the instance's prefix and a count.
 */
function createRequestId(instance: string): (request: Request) => string {
  let count = 0;
  return (request) => {
    const given = request.headers.get("x-request-id");
    if (given !== null && WELL_FORMED.test(given)) return given;
    count += 1;
    return `${instance}-${count.toString(36)}`;
  };
}

/**
 * The path of a request's URL as sent, without its query: the same as `new URL(url).pathname` for a URL that a server
 * made, at a tenth of the cost.
 */
export function pathOf(url: string): string {
  const host = url.indexOf("://") + 3;
  const start = url.indexOf("/", host);
  if (start < 0) return "/";
  const query = url.indexOf("?", start);
  return query < 0 ? url.slice(start) : url.slice(start, query);
}

/** The response to HEAD: status and headers of the GET response, `content-length` included if known. */
async function withoutBody(response: Response): Promise<Response> {
  const headers = new Headers(response.headers);
  if (isJson(headers)) {
    headers.set("content-length", String((await response.arrayBuffer()).byteLength));
  } else {
    await response.body?.cancel();
  }
  return new Response(null, { status: response.status, headers });
}
