import type { RequestContext } from "./request-context.ts";

/** A request that the router matched: the raw path parameters and the query are on it. */
export interface RoutedRequest extends Request {
  /** The pattern that matched. */
  readonly route: string;
  /** Path segments as sent, still percent-encoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | string[] | undefined>>;
}

/** One line of the route table; 405, `Allow` and HEAD derive from the table. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** An itty-router pattern, such as `/api/v1/tenants/:id`. */
  readonly path: string;
  /** Answers without an API key. */
  readonly public?: boolean;
  /** The query parameters that it knows; any other is a 400. @default none */
  readonly query?: readonly string[] | "any";
  readonly handle: (request: RoutedRequest, context: RequestContext) => Response | Promise<Response>;
}
