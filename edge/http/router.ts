import { IttyRouter } from "itty-router";
import type { Span } from "../../crds/tracing/tracer.ts";
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
  /** Whether the runtime sends the end of an answer's head only with its first byte. @default false */
  readonly headWaits?: boolean;
  /**
   * Makes a WebSocket of a request whose handshake headers are right, and answers it; the result stands for that
   * answer.
   *
   * @throws HttpError 400 where the runtime finds something wrong all the same
   */
  readonly upgrade?: (listener: SocketListener) => Response;
  /** Of the request, where it is traced. */
  readonly span?: Span;
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

type Answer = (request: RoutedRequest, context: RequestContext) => Response | Promise<Response>;

/**
 * Builds the dispatch of a route table: a map finds the paths without parameters, and itty-router tries the other
 * patterns one after the other, in the table's order, so hot ones come first.
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
  const literal = createLiteralRoutes();

  for (const route of routes) on(route.method, route.path, answerOf(route));
  for (const route of routes) {
    if (route.method === "GET") on("HEAD", route.path, answerOf(route));
  }
  for (const [path, allowed] of methodsByPath(routes)) {
    const isPublic = routes.some((route) => route.path === path && route.public === true);
    const refuse = guarded(isPublic, (request) => refuseMethod(request, allowed));
    on("ALL", path, refuse);
  }
  const served = [...new Set([...methodsByPath(routes).values()].flat())];
  const refuse = guarded(false, (request) => refusePath(request, served));
  on("ALL", "*", refuse);

  return async (request, context) => {
    const answer = literal.find(request);
    return answer === undefined ? router.fetch(request, context) : answer(request as RoutedRequest, context);
  };

  /** Who has no key learns nothing from the answer, unless it is public. */
  function guarded(isPublic: boolean | undefined, answer: Answer): Answer {
    return async (request, context) => {
      if (isPublic !== true) await authenticate(request);
      return await answer(request, context);
    };
  }

  function answerOf({ public: isPublic, query = {}, handle }: Route): Answer {
    if (query === "any") return guarded(isPublic, handle);
    const known = Object.keys(query);
    return guarded(isPublic, (request, context) => {
      refuseUnknownQuery(request, known);
      return handle(request, context);
    });
  }

  function on(method: Route["method"] | "HEAD" | "ALL", path: string, answer: Answer): void {
    const register = router[method.toLowerCase()];
    if (register === undefined) throw new Error(`Cannot route ${method} ${path}: itty-router knows no such method`);
    register(path, path === "/" || path.endsWith("*") ? answer : exactly(answer));
    literal.add(method, path, answer);
  }
}

/** itty-router takes a slash at the end as if it were not there: a list would answer for an object without a name. */
function exactly(answer: Answer): (...given: Parameters<Answer>) => ReturnType<Answer> | undefined {
  return (request, context) => (endsInSlash(request.url) ? undefined : answer(request, context));
}

function endsInSlash(url: string): boolean {
  const end = url.search(/[?#]/);
  return (end < 0 ? url : url.slice(0, end)).endsWith("/");
}

/** The routes that have no parameter in their path, for the requests that have no query. */
function createLiteralRoutes(): {
  add(method: string, path: string, answer: Answer): void;
  find(request: Request): Answer | undefined;
} {
  const answers = new Map<string, Answer>();
  /** What came before the path in an address that `new URL` read as a path and no more: servers see few of them. */
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
        // The path of `http://host#/` is the root's, whatever comes behind.
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
