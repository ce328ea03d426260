import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { anyKey } from "../../access/route-access.ts";
import { gzipResponse } from "../../http/gzip-response.ts";
import type { ApiRoute } from "../api-route.ts";
import { type DocumentedOperation, type OpenApiDocument, openApiDocument } from "./document.ts";

interface Made {
  readonly json: Parameters<typeof gzipResponse>[1];
  readonly page: string;
}

/**
 * `GET /api/v1/openapi.json` and `GET /docs`, generated from the other routes on first use.
 *
 * @param options.asksForKey whether TENANCY_API_KEY is set
 */
export function openApiRoutes(described: readonly ApiRoute[], options: { asksForKey: boolean }): ApiRoute[] {
  let made: Made | undefined;
  const routes: ApiRoute[] = [
    {
      method: "GET",
      path: "/api/v1/openapi.json",
      access: anyKey,
      summary: "This document",
      answer: { type: "object", additionalProperties: {}, description: "An OpenAPI 3.1 document." },
      handle: (request) => gzipResponse(request, all().json, { "content-type": "application/json" }),
    },
    {
      method: "GET",
      path: "/docs",
      access: anyKey,
      summary: "This document as a page",
      answer: "text/html",
      handle: () =>
        new Response(all().page, {
          headers: { "content-type": "text/html; charset=utf-8", "content-security-policy": CONTENT_POLICY },
        }),
    },
  ];
  return routes;

  /** Half a megabyte of JSON, a twelfth of it with gzip. */
  function all(): Made {
    if (made === undefined) {
      const document = openApiDocument([...described, ...routes], options);
      const plain = Buffer.from(JSON.stringify(document));
      made = { json: { plain, gzip: gzipSync(plain, { level: 9 }) }, page: docsPage(document) };
    }
    return made;
  }
}

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; }
code, pre { font: 0.9em ui-monospace, monospace; }
pre { overflow-x: auto; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: 0.5rem; }
details { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: 0.5rem 0; }
summary { cursor: pointer; }
table { border-collapse: collapse; }
td { padding: 0.1rem 1rem 0.1rem 0; vertical-align: top; }
`;

/** The page loads nothing from elsewhere and runs no scripts; its only style is allowed by its hash. */
const CONTENT_POLICY = `default-src 'none'; style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'; base-uri 'none'; frame-ancestors 'none'`;

/** The document as one page without scripts or external resources. */
function docsPage(document: OpenApiDocument): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => section(`${method.toUpperCase()} ${path}`, operation)),
  );
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) =>
      `<details id="${escaped(name)}"><summary><code>${escaped(name)}</code> ${escaped(schema.description ?? "")}</summary>` +
      `<pre>${escaped(JSON.stringify(schema, null, 2))}</pre></details>`,
  );
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>tenancy API</title><style>${STYLE}</style>
<h1>tenancy API</h1>
<p>${escaped(document.info.description)} Send the key as <code>Authorization: Bearer &lt;TENANCY_API_KEY&gt;</code>, where the
server has one. For programs: <a href="/api/v1/openapi.json">openapi.json</a>.</p>
<h2>Routes</h2>
${operations.join("\n")}
<h2>Schemas</h2>
${schemas.join("\n")}
</html>
`;
}

function section(title: string, operation: DocumentedOperation): string {
  const { summary, description, parameters, requestBody, responses, security } = operation;
  const rows = parameters.map(
    ({ name, in: place, schema, description: words }) =>
      `<tr><td><code>${escaped(name)}</code><td>${place}<td>${escaped(words ?? schema.description ?? "")}`,
  );
  const body = requestBody?.content["application/json"]?.schema;
  const answers = Object.entries(responses).map(([status, { description: words, content = {} }]) => {
    const [type, use] = Object.entries(content)[0] ?? [];
    const what =
      status >= "400" || use === undefined ? "" : ` ${type === "application/json" ? named(use.schema) : type}`;
    return `<tr><td><code>${status}</code><td>${escaped(words)}${what}`;
  });
  return `<details><summary><code>${escaped(title)}</code> ${escaped(summary)}</summary>
${description === undefined ? "" : `<p>${escaped(description)}</p>`}${security === undefined ? "" : "<p>Requires no key.</p>"}
${rows.length > 0 ? `<table>${rows.join("")}</table>` : ""}
${body === undefined ? "" : `<p>Body:</p><pre>${escaped(JSON.stringify(body, null, 2))}</pre>`}
<table>${answers.join("")}</table></details>`;
}

function named(schema: object): string {
  const name = /#\/components\/schemas\/(\w+)/.exec(JSON.stringify(schema))?.[1];
  if (name === undefined) return `<pre>${escaped(JSON.stringify(schema, null, 2))}</pre>`;
  return `${"items" in schema ? "A list of " : ""}<a href="#${name}">${name}</a>`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
