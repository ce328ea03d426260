import { IttyRouter } from "itty-router";
import { quote } from "../../crds/quote.ts";
import type { Span } from "../../crds/tracing/tracer.ts";
import { type Caller, root } from "../access/actor.ts";
import { answerAs } from "../access/answer-as.ts";
import type { Authorize } from "../access/authorize.ts";
import type { RouteAccess } from "../access/route-access.ts";
import type { TenantRates } from "../access/tenant-rates.ts";
import type { Audit, Trail } from "../audit/audit.ts";
import { type Act, actOf } from "../audit/audit-record.ts";
import type { SocketListener } from "./event-socket.ts";
import { HttpError } from "./http-error.ts";

/** A matched request with its raw path parameters and query. */
export interface RoutedRequest extends Request {
  /** The pattern that matched. */
  readonly route: string;
  /** Path segments as sent, still percent-encoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | string[] | undefined>>;
  /** Who sent it; undefined on a public route. */
  readonly caller?: Caller;
  /** Called with the number of bytes of the body that were read. */
  readonly onReceived?: (bytes: number) => void;
  /** Its record in the audit log; undefined if it is left out. */
  readonly audit?: Trail;
}

/** What an adapter provides for a request. */
export interface RequestContext {
  /** Aborted when the client disconnects before the response; `request.signal` if the runtime aborts that one. */
  readonly clientGone?: AbortSignal;
  /** Lifts the adapter's limit on silent connections: the response may come late, or pause for long. */
  readonly mayBeSilent?: () => void;
  /** Whether the runtime sends the end of a response's head only with its first byte. @default false */
  readonly headWaits?: boolean;
  /**
   * Upgrades a request with a valid handshake to a WebSocket; the result represents the response.
   *
   * @throws HttpError 400 if the runtime still finds an error
   */
  readonly upgrade?: (listener: SocketListener) => Response;
  /** The IP address of a request's client, while it is connected. The same function for each request, if it can be. */
  readonly peerOf?: (request: Request) => string | undefined;
  /** Span of the request, if traced. */
  readonly span?: Span;
}

/** A route; 405, `Allow` and HEAD are derived from the table. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** An itty-router pattern, such as `/api/v1/tenants/:id`. */
  readonly path: string;
  /** Whether no API key is needed. */
  readonly public?: boolean;
  /** Which keys may call it. @default only those of the role admin */
  readonly access?: RouteAccess;
  /** What the audit log says of a request. @default as {@link actOf} derives it */
  readonly act?: Act | "none";
  /** The known query parameters by name; any other is a 400. @default none */
  readonly query?: Readonly<Record<string, object>> | "any";
  readonly handle: (request: RoutedRequest, context: RequestContext) => Response | Promise<Response>;
}

/** https://www.rfc-editor.org/rfc/rfc9110#name-safe-methods */
const SAFE = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);

type Answer = (request: RoutedRequest, context: RequestContext) => Response | Promise<Response>;

/**
 * Builds the dispatch of a route table: a map finds the paths without parameters, and itty-router tries the other
 * patterns in the table's order, so frequent ones come first.
 *
 * HEAD of every GET route, 405 with `Allow`, and 404 are derived from the table. `authenticate` runs before everything
 * except public routes, also before 404 and 405, which would reveal routes to strangers. `authorize` follows it where a
 * route was found.
 */
export function createRouter(
  routes: readonly Route[],
  options: {
    authenticate: (request: Request, context: RequestContext) => Caller | Promise<Caller>;
    authorize: Authorize;
    /** @default no tenant's requests are limited */
    rates?: TenantRates | undefined;
    audit?: Pick<Audit, "begin"> | undefined;
  },
): (request: Request, context: RequestContext) => Promise<Response> {
  const router = IttyRouter<RoutedRequest, [RequestContext], Response>();
  const { authenticate, authorize, rates, audit } = options;
  const literal = createLiteralRoutes();

  for (const route of routes) on(route.method, route.path, answerOf(route));
  for (const route of routes) {
    if (route.method === "GET") on("HEAD", route.path, answerOf(route));
  }
  for (const [path, allowed] of methodsByPath(routes)) {
    const isPublic = routes.some((route) => route.path === path && route.public === true);
    const refuse = guarded({ public: isPublic }, (request) => refuseMethod(request, allowed));
    on("ALL", path, recordedIfUnsafe(refuse));
  }
  const served = [...new Set([...methodsByPath(routes).values()].flat())];
  const refuse = guarded({}, (request) => refusePath(request, served));
  on("ALL", "*", recordedIfUnsafe(refuse));

  return async (request, context) => {
    const answer = literal.find(request);
    return answer === undefined ? router.fetch(request, context) : answer(request as RoutedRequest, context);
  };

  /** A caller without a key learns nothing from the response, unless the route is public. */
  function guarded({ public: isPublic }: Pick<Route, "public">, answer: Answer): Answer {
    return async (request, context) => {
      if (isPublic === true) return await answer(request, context);
      const caller = await authenticate(request, context);
      return await answer(Object.assign(request, { caller }), context);
    };
  }

  function answerOf(route: Route): Answer {
    const { query = {}, handle } = route;
    const known = query === "any" ? undefined : Object.keys(query);
    return recorded(
      actOf(route),
      guarded(route, async (request, context) => {
        const { actor } = request.caller ?? {};
        const tenantId = actor && (await authorize(actor, request, route.access));
        if (known !== undefined) refuseUnknownQuery(request, known);
        if (actor === undefined || actor === root) return await handle(request, context);
        const asked = { request, context, access: route.access };
        if (tenantId === undefined || rates === undefined) return await answerAs(actor, asked, handle);
        rates.admit(tenantId);
        const count = (bytes: number): void => rates.addBytes(tenantId, bytes);
        const counted = Object.assign(request, { onReceived: count });
        return await answerAs(actor, { ...asked, request: counted, onSent: count }, handle);
      }),
    );
  }

  /** Begins the record before anything can refuse the request; other routes pay nothing for the audit log. */
  function recorded(act: Act | undefined, answer: Answer): Answer {
    if (act === undefined || audit === undefined) return answer;
    return (request, context) => {
      const trail = audit.begin(request, act, context.peerOf);
      const { upgrade } = context;
      const followed =
        upgrade === undefined || act === "change"
          ? context
          : { ...context, upgrade: (listener: SocketListener) => upgrade(trail.follow(listener)) };
      return answer(Object.assign(request, { audit: trail }), followed);
    };
  }

  /** Attempts to change something count, also where there is nothing. */
  function recordedIfUnsafe(answer: Answer): Answer {
    const change = recorded("change", answer);
    return (request, context) => (SAFE.has(request.method) ? answer : change)(request, context);
  }

  function on(method: Route["method"] | "HEAD" | "ALL", path: string, answer: Answer): void {
    const register = router[method.toLowerCase()];
    if (register === undefined) throw new Error(`Cannot route ${method} ${path}: itty-router knows no such method`);
    register(path, path === "/" || path.endsWith("*") ? answer : exactly(answer));
    literal.add(method, path, answer);
  }
}

/** itty-router ignores a trailing slash: a list would answer for an object without a name. */
function exactly(answer: Answer): (...given: Parameters<Answer>) => ReturnType<Answer> | undefined {
  return (request, context) => (endsInSlash(request.url) ? undefined : answer(request, context));
}

function endsInSlash(url: string): boolean {
  const end = url.search(/[?#]/);
  return (end < 0 ? url : url.slice(0, end)).endsWith("/");
}

/** The routes without a parameter in their path, for requests without a query. */
function createLiteralRoutes(): {
  add(method: string, path: string, answer: Answer): void;
  find(request: Request): Answer | undefined;
} {
  const answers = new Map<string, Answer>();
  /** The part before the path of a URL that `new URL` parsed as a plain path: servers see few of them. */
  let plainOrigin: string | undefined;
  return {
    add(method, path, answer) {
      const key = `${method} ${path}`;
      if (/[:*]/.test(path) || answers.has(key)) return;
      answers.set(key, (request, context) =>
        answer(Object.assign(request, { route: path, params: {}, query: {} }), context),
      );
    },
    find({ method, url }) {
      const start = url.indexOf("/", "http://".length);
      const path = url.slice(start);
      const answer = answers.get(`${method} ${path}`);
      if (answer === undefined) return undefined;
      const origin = url.slice(0, start);
      if (origin !== plainOrigin) {
        const { pathname, search, hash } = new URL(url);
        // The path of `http://host#/` is that of the root, whatever follows.
        if (pathname !== path || search !== "" || hash !== "") return undefined;
        plainOrigin = origin;
      }
      return answer;
    },
  };
}

function methodsByPath(routes: readonly Route[]): Map<string, string[]> {
  const methods = new Map<string, string[]>();
  for (const { method, path } of routes) {
    const known = methods.get(path) ?? [];
    known.push(...(method === "GET" ? ["GET", "HEAD"] : [method]));
    methods.set(path, known);
  }
  return methods;
}

/** Refuses unknown parameters: a misspelt one would silently have no effect. */
function refuseUnknownQuery({ query }: RoutedRequest, known: readonly string[]): void {
  for (const name in query) {
    if (known.includes(name)) continue;
    const hint = known.length === 0 ? "this route has none" : `known are ${known.join(", ")}`;
    throw new HttpError(400, `query: unknown parameter ${quote(name)}; ${hint}`);
  }
}

function refuseMethod(request: RoutedRequest, allowed: readonly string[]): never {
  const allow = allowed.join(", ");
  throw new HttpError(405, `${request.method} is not supported here; ${allow} ${allowed.length === 1 ? "is" : "are"}`, {
    headers: { allow },
  });
}

function refusePath(request: RoutedRequest, served: readonly string[]): never {
  // CONNECT names an authority, not a path.
  if (request.method !== "OPTIONS" && !served.includes(request.method)) refuseMethod(request, served);
  const { pathname } = new URL(request.url);
  try {
    decodeURIComponent(pathname);
  } catch (cause) {
    throw new HttpError(400, "path: is not valid percent-encoding", { cause });
  }
  throw new HttpError(404, `there is no route ${request.method} ${quote(pathname)}`);
}
