// @runtimes bun node deno

import { suite } from "uvu";
import * as assert from "uvu/assert";
import { healthRoute } from "../../../edge/api/system.ts";
import { loadConfig } from "../../../edge/config.ts";
import { createApiKeyCheck, createFindActor } from "../../../edge/http/api-key.ts";
import { createCors } from "../../../edge/http/cors.ts";
import { createHandler } from "../../../edge/http/handler.ts";
import { createPageCheck } from "../../../edge/http/page-check.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("CORS");
const APP = "https://app.example.com";

function handlerFor(origins: string[], { key = false } = {}) {
  const named = new Set(origins);
  return createHandler({
    routes: [healthRoute, { method: "POST", path: "/write", handle: () => Response.json({}) }],
    ...(key && { authenticate: createApiKeyCheck(createFindActor("k")) }),
    checkPage: createPageCheck({ localOnly: false, origins: named }),
    cors: createCors(named),
    log: silentLog,
    instance: "t",
  });
}

const ask = (handler: ReturnType<typeof handlerFor>, target: string, headers: Record<string, string>) => {
  const [method = "", path = ""] = target.split(" ");
  return handler(new Request(`http://edge.test${path}`, { method, headers }));
};

test("a preflight of a named origin is answered before the key is asked for", async () => {
  const handler = handlerFor([APP], { key: true });
  const preflight = { origin: APP, "access-control-request-method": "POST" };
  const answer = await ask(handler, "OPTIONS /write", preflight);
  assert.is(answer.status, 204);
  assert.is(answer.headers.get("access-control-allow-origin"), APP);
  assert.match(answer.headers.get("access-control-allow-methods") ?? "", "DELETE");
  assert.match(answer.headers.get("access-control-allow-headers") ?? "", "authorization");
  const other = await ask(handler, "OPTIONS /write", { ...preflight, origin: "https://evil.example" });
  assert.is(other.status, 401);
  assert.is(other.headers.get("access-control-allow-origin"), null);
  assert.is((await ask(handler, "OPTIONS /write", { origin: APP })).status, 401);
});

test("answers, also errors, name the origin that may read them, and vary by it", async () => {
  const handler = handlerFor([APP], { key: true });
  for (const target of ["GET /api/v1/health", "POST /write"]) {
    const answer = await ask(handler, target, { origin: APP });
    assert.is(answer.headers.get("access-control-allow-origin"), APP, target);
    assert.is(answer.headers.get("vary"), "Origin");
  }
  const other = await ask(handler, "GET /api/v1/health", { origin: "https://evil.example" });
  assert.is(other.headers.get("access-control-allow-origin"), null);
  assert.is(other.headers.get("vary"), "Origin");
});

test("without a key, a named origin may write and another may not", async () => {
  const handler = handlerFor([APP]);
  const site = { "sec-fetch-site": "cross-site" };
  assert.is((await ask(handler, "POST /write", { ...site, origin: APP })).status, 200);
  const refused = await ask(handler, "POST /write", { ...site, origin: "https://evil.example" });
  assert.is(refused.status, 403);
  assert.match(((await refused.json()) as { error: string }).error, "TENANCY_CORS_ORIGIN");
});

test("* lets every origin read", async () => {
  const answer = await ask(handlerFor(["*"], { key: true }), "GET /api/v1/health", { origin: "https://any.example" });
  assert.is(answer.headers.get("access-control-allow-origin"), "*");
});

test("the setting is checked, and * needs a key", () => {
  const origins = (value: string, more: object = { TENANCY_API_KEY: "k" }) => [
    ...loadConfig({ TENANCY_CORS_ORIGIN: value, ...more }).corsOrigins,
  ];
  assert.equal(origins(`${APP}, http://localhost:3000`), [APP, "http://localhost:3000"]);
  assert.equal(origins("*"), ["*"]);
  for (const bad of ["app.example.com", `${APP}/`, `${APP}/path`, "*,https://a.example", "ftp://a", "null", "a b"]) {
    assert.throws(() => origins(bad), /^TENANCY_CORS_ORIGIN must be origins/);
  }
  assert.throws(() => origins("*", {}), /allows every web page to use the API/);
});

test.run();
