// @runtimes bun node deno

import { gunzipSync, gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { dashboardRoutes } from "../../../edge/api/dashboard.ts";
import { createApiKeyCheck, createFindActor } from "../../../edge/http/api-key.ts";
import { createHandler } from "../../../edge/http/handler.ts";
import { createPageCheck } from "../../../edge/http/page-check.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("edge/dashboard");

const text = "x".repeat(1000);
const zipped = (type: string) => ({ type, gzip: gzipSync(text).toString("base64") });
const handler = createHandler({
  routes: dashboardRoutes(
    {
      theme: "theme-1.js",
      script: "main-2.js",
      style: "main-3.css",
      files: { "main-2.js": zipped("text/javascript; charset=utf-8"), "main-3.css": zipped("text/css; charset=utf-8") },
    },
    { checkPage: createPageCheck({ localOnly: true, origins: new Set() }) },
  ),
  authenticate: createApiKeyCheck(createFindActor("secret")),
  log: silentLog,
  instance: "test",
});

function get(path: string, headers: Record<string, string> = {}, method = "GET"): Promise<Response> {
  return handler(new Request(`http://127.0.0.1${path}`, { method, headers: { host: "127.0.0.1", ...headers } }));
}

test("every address of the page answers the page, without a key", async () => {
  for (const path of ["/", "/dashboard", "/dashboard/claims/alice/hello?q=1", "/dashboard/pools"]) {
    const response = await get(path);
    assert.is(response.status, 200, path);
    const html = await response.text();
    for (const part of ['src="/assets/theme-1.js"', 'src="/assets/main-2.js"', 'href="/assets/main-3.css"'])
      assert.match(html, part);
  }
  assert.is((await get("/api/v1/claims")).status, 401);
});

test("the page's policy lets nothing run or be shown but its own files, and no text become markup", async () => {
  const { headers } = await get("/");
  const policy = headers.get("content-security-policy") ?? "";
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"])
    assert.match(policy, part);
  assert.not.match(policy, "unsafe");
  assert.is(headers.get("x-content-type-options"), "nosniff");
  assert.is(headers.get("referrer-policy"), "no-referrer");
});

test("the page holds nothing that its own policy refuses", async () => {
  const html = await (await get("/")).text();
  assert.not.match(html, /<style|style=|<script>|\son\w+=/);
});

test("a browser that has the page is told that it is the same", async () => {
  const first = await get("/");
  assert.is(first.headers.get("cache-control"), "no-cache");
  const again = await get("/dashboard/claims", { "if-none-match": first.headers.get("etag") ?? "" });
  assert.equal([again.status, await again.text()], [304, ""]);
});

test("files are kept for ever, and come gzipped where that is accepted", async () => {
  const plain = await get("/assets/main-2.js");
  assert.equal([plain.headers.get("content-encoding"), await plain.text()], [null, text]);
  assert.is(plain.headers.get("content-type"), "text/javascript; charset=utf-8");
  assert.is(plain.headers.get("cache-control"), "public, max-age=31536000, immutable");
  const small = await get("/assets/main-3.css", { "accept-encoding": "gzip, br" });
  assert.is(small.headers.get("content-encoding"), "gzip");
  assert.is(String(gunzipSync(Buffer.from(await small.arrayBuffer()))), text);
  assert.is((await get("/assets/main-2.js", {}, "HEAD")).status, 200);
});

test("a file is gzipped where gzip is named, in any case and with any weight but 0", async () => {
  const encodingOf = async (accepted: string) =>
    (await get("/assets/main-2.js", { "accept-encoding": accepted })).headers.get("content-encoding");
  for (const accepted of [
    "gzip",
    "GZIP",
    "br;q=1, gzip;q=0.5",
    "gzip ; q=1.0",
    "deflate,gzip",
    "x-gzip",
    "gzip;q=0.001",
  ])
    assert.is(await encodingOf(accepted), "gzip", accepted);
  for (const accepted of ["", "identity", "br", "gzip;q=0", "br, gzip; q=0.000", "GZIP;Q=0", "gzipped"])
    assert.is(await encodingOf(accepted), null, accepted);
});

test("a file is unpacked when the routes are made, and not for each who asks", () => {
  const files = { "main-2.js": { type: "text/javascript", gzip: Buffer.from("not gzip").toString("base64") } };
  const assets = { theme: "theme-1.js", script: "main-2.js", style: "main-3.css", files };
  assert.throws(() => dashboardRoutes(assets, { checkPage: () => undefined }), /header/);
});

test("a file that is not there, or not the page's, is a 404", async () => {
  for (const path of ["/assets/main-1.js", "/assets/..%2Fmain.ts", "/assets/constructor"])
    assert.is((await get(path)).status, 404, path);
});

test("where only this machine is served, another name of it is refused", async () => {
  for (const path of ["/", "/assets/main-2.js"])
    assert.is((await get(path, { host: "evil.example.com" })).status, 403, path);
});

test.run();
