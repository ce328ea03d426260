import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";
import type { Log } from "../../crds/log.ts";
import { gzipResponse } from "../http/gzip-response.ts";
import { HttpError } from "../http/http-error.ts";
import { isUnchanged } from "../http/if-none-match.ts";
import type { Route } from "../http/router.ts";

/** Output of `npm run dashboard`: each file of edge/dashboard, gzipped, in base64, under a name with its hash. */
export interface DashboardAssets {
  /** Loaded before the first paint, so that no other theme flashes. */
  readonly theme: string;
  readonly script: string;
  readonly style: string;
  readonly files: Readonly<Record<string, { readonly type: string; readonly gzip: string }>>;
}

/** Only the page's own files run, and no text can become markup: docs/decisions/edge-http.md#the-dashboards-page. */
const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/**
 * `/`, `/dashboard/…` and `/assets/{file}`: the same for everyone, so they require no key.
 *
 * @param options.checkPage throws if the request names a host that is not served
 */
export function dashboardRoutes(assets: DashboardAssets, options: { checkPage: (request: Request) => void }): Route[] {
  const { checkPage } = options;
  const html = page(assets);
  const etag = `"${createHash("sha256").update(html).digest("base64url").slice(0, 22)}"`;
  const files = new Map(
    Object.entries(assets.files).map(([name, file]) => {
      const gzip = Buffer.from(file.gzip, "base64");
      // Anyone may request them, so they are unpacked once, not for each client without gzip.
      return [name, { type: file.type, gzip, plain: gunzipSync(gzip) }];
    }),
  );
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": CONTENT_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    etag,
  };

  function answerPage(request: Request): Response {
    checkPage(request);
    if (isUnchanged(request, etag)) return new Response(null, { status: 304, headers });
    return new Response(html, { headers });
  }

  return [
    ...["/", "/dashboard", "/dashboard/*"].map((path) => ({
      ...{ method: "GET" as const, path, public: true, query: "any" as const },
      handle: answerPage,
    })),
    {
      method: "GET",
      path: "/assets/:file",
      public: true,
      handle(request) {
        checkPage(request);
        const file = files.get(request.params.file ?? "");
        if (file === undefined)
          throw new HttpError(404, "this file does not exist: the page is of another version; reload it");
        return gzipResponse(request, file, {
          "content-type": file.type,
          "cache-control": "public, max-age=31536000, immutable",
          "cross-origin-resource-policy": "same-origin",
        });
      },
    },
  ];
}

/** Reads the output of `npm run dashboard`, which is part of an image's bundle; undefined if it was not built. */
export async function loadDashboard(log: Log): Promise<DashboardAssets | undefined> {
  try {
    return (await import("../../dist/dashboard.json", { with: { type: "json" } })).default;
  } catch (error) {
    // Bun and Deno report one code, Node with tsx the other.
    const { code } = error as { code?: string };
    if (code !== "ERR_MODULE_NOT_FOUND" && code !== "MODULE_NOT_FOUND") throw error;
    log.warn({}, "dashboard not served: build it with npm run dashboard");
    return undefined;
  }
}

function page({ theme, script, style }: DashboardAssets): string {
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>tenancy</title><meta name="description" content="Claims, workloads, pools and files of the tenants of a cluster"><link rel="icon" href="data:,">
<script src="/assets/${theme}"></script><link rel="stylesheet" href="/assets/${style}">
<script type="module" src="/assets/${script}"></script>
<body><div id="app"></div><noscript>The dashboard needs JavaScript; the API does not: <a href="/docs">/docs</a></noscript></html>
`;
}
