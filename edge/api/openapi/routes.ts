import { jsonResponse } from "../../http/json-response.ts";
import type { Route } from "../../http/route.ts";
import { docsPage } from "./docs-page.ts";
import { type OpenApiDocument, openApiDocument } from "./document.ts";
import { operations } from "./operations.ts";

/** Nothing on the page comes from elsewhere or runs. */
const CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";

/**
 * `GET /api/v1/openapi.json` and `GET /docs`, made of the other routes when one is first asked for.
 *
 * @param options.asksForKey whether TENANCY_API_KEY is set
 */
export function openApiRoutes(described: readonly Route[], options: { asksForKey: boolean }): Route[] {
  let made: { document: OpenApiDocument; page: string } | undefined;
  const routes: Route[] = [
    { method: "GET", path: "/api/v1/openapi.json", handle: () => jsonResponse(all().document) },
    {
      method: "GET",
      path: "/docs",
      handle: () =>
        new Response(all().page, {
          headers: { "content-type": "text/html; charset=utf-8", "content-security-policy": CONTENT_POLICY },
        }),
    },
  ];
  return routes;

  function all(): { document: OpenApiDocument; page: string } {
    if (made === undefined) {
      const document = openApiDocument([...described, ...routes], operations, options);
      made = { document, page: docsPage(document) };
    }
    return made;
  }
}
