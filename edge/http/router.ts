import { IttyRouter } from "itty-router";
import type { SocketListener } from "./event-socket.ts";
import { HttpError, quote } from "./http-error.ts";

/** A request that the router matched: the raw path parameters and the query are on it. */
export interface RoutedRequest extends Request {
  /** The pattern that matched. */
  readonly route: string;
  /** Path segments as sent, still percent-encoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | string[] | undefined>>;
}

/** What an adapter knows about a request beyond the request itself. */
export interface RequestContext {
  /** Aborted when the client goes away before its answer; `request.signal` where the runtime aborts that one. */
  readonly clientGone?: AbortSignal;
  /** Tells the adapter that the answer may come late, or pause for long: its limit on silent connections is lifted. */
  readonly mayBeSilent?: () => void;
  /**
   * Makes a WebSocket of a request whose handshake headers are right, and answers it; the result stands for that
   * answer.
   *
   * @throws HttpError 400 where the runtime finds something wrong all the same
   */
  readonly upgrade?: (listener: SocketListener) => Response;
}

/** One line of the route table; 405, `Allow` and HEAD derive from the table. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** An itty-router pattern, such as `/api/v1/tenants/:id`. */
  readonly path: string;
  /** Answers without an API key. */
  readonly public?: boolean;
  /** By the names of the query parameters that it knows; any other is a 400. @default none */
  readonly query?: Readonly<Record<string, object>> | "any";
  readonly handle: (request: RoutedRequest, context: RequestContext) => Response | Promise<Response>;
}

type Step = (request: RoutedRequest, context: RequestContext) => unknown;

/**
 * Builds the dispatch of a route table, in its order: itty-router tries one pattern after the other, so hot routes come
 * first.
 *
 * HEAD of every GET route, 405 with `Allow`, and 404 derive from the table. `authenticate` runs before everything but
 * public routes, also before 404 and 405, which tell strangers nothing.
 */
export function createRouter(
  routes: readonly Route[],
  options: { authenticate: (request: Request) => void | Promise<void> },
): (request: Request, context: RequestContext) => Promise<Response> {
  const router = IttyRouter<RoutedRequest, [RequestContext], Response>();
  const { authenticate } = options;
  const guard: Step[] = [(request) => authenticate(request)];
  const guardOf = (isPublic: boolean | undefined): Step[] => (isPublic === true ? [] : guard);
  const stepsOf = ({ public: isPublic, query = {}, handle }: Route): Step[] => [
    ...guardOf(isPublic),
    ...(query === "any" ? [] : [(request: RoutedRequest) => refuseUnknownQuery(request, Object.keys(query))]),
    handle,
  ];

  for (const route of routes) on(route.method, route.path, stepsOf(route));
  for (const route of routes) {
    if (route.method === "GET") on("HEAD", route.path, stepsOf(route));
  }
  for (const [path, allowed] of methodsByPath(routes)) {
    const isPublic = routes.some((route) => route.path === path && route.public === true);
    on("ALL", path, [...guardOf(isPublic), (request) => refuseMethod(request, allowed)]);
  }
  const served = [...new Set([...methodsByPath(routes).values()].flat())];
  on("ALL", "*", [...guard, (request) => refusePath(request, served)]);

  return (request, context) => router.fetch(request, context);

  function on(method: Route["method"] | "HEAD" | "ALL", path: string, steps: readonly Step[]): void {
    const register = router[method.toLowerCase()];
    if (register === undefined) throw new Error(`Cannot route ${method} ${path}: itty-router knows no such method`);
    register(path, ...steps);
  }
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

/** Refuses parameters that do not exist: a misspelt one would have no effect, unnoticed. */
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
  // CONNECT asks for an authority, not a path.
  if (request.method !== "OPTIONS" && !served.includes(request.method)) refuseMethod(request, served);
  const { pathname } = new URL(request.url);
  try {
    decodeURIComponent(pathname);
  } catch (cause) {
    throw new HttpError(400, "path: is not valid percent-encoding", { cause });
  }
  throw new HttpError(404, `there is no route ${request.method} ${quote(pathname)}`);
}
