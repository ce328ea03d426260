// @runtimes bun node deno

import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createWebhookPaths } from "../../../edge/gateway/webhook/webhook-paths.ts";
import { createApiKeyCheck, createFindActor } from "../../../edge/http/api-key.ts";
import { createCors } from "../../../edge/http/cors.ts";
import { type AnsweredRequest, createHandler } from "../../../edge/http/handler.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { jsonResponse } from "../../../edge/http/response.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("webhooks in the handler");

function testEnvironment() {
  const webhooks = createWebhookPaths();
  const answers: AnsweredRequest[] = [];
  const handler = createHandler({
    routes: [{ method: "GET", path: "/api/v1/secret", handle: () => jsonResponse({ ok: true }) }],
    authenticate: createApiKeyCheck(createFindActor("key")),
    cors: createCors(new Set(["*"])),
    webhooks,
    log: silentLog,
    instance: "test",
    onAnswered: (answered) => void answers.push(answered),
  });
  const call = (target: string, headers: Record<string, string> = {}) => {
    const [method = "GET", path = "/"] = target.split(" ");
    return handler(new Request(`http://edge.test${path}`, { method, headers }));
  };
  return { webhooks, answers, call };
}

test("a webhook needs no API key; every other path still does", async () => {
  const { webhooks, call, answers } = testEnvironment();
  webhooks.register("/hooks/a", async () => jsonResponse({ hook: true }));
  assert.is((await call("POST /hooks/a")).status, 200);
  assert.is((await call("POST /hooks/a?x=/y")).status, 200);
  assert.is(answers.at(-1)?.route, "webhook");
  for (const path of ["/hooks/a/", "/hooks", "/hooks/a/b", "/HOOKS/a", "/api/v1/secret"]) {
    assert.is((await call(`POST ${path}`)).status, 401, path);
  }
});

test("the API's leave for pages of other origins is none for webhooks", async () => {
  const { webhooks, call } = testEnvironment();
  webhooks.register("/hooks/a", async ({ method }) => {
    if (method !== "POST") throw new HttpError(405, "POST only", { headers: { allow: "POST" } });
    return jsonResponse({});
  });
  const origin = "https://page.test";
  const preflight = await call("OPTIONS /hooks/a", { origin, "access-control-request-method": "POST" });
  assert.is(preflight.status, 405);
  assert.is(preflight.headers.get("allow"), "POST");
  for (const response of [preflight, await call("POST /hooks/a", { origin })]) {
    for (const name of response.headers.keys()) assert.not(name.startsWith("access-control-"), name);
    assert.is(response.headers.get("x-content-type-options"), "nosniff");
  }
});

test("whatever a webhook answers, a browser with a session runs none of it as a page of this origin", async () => {
  const { webhooks, call } = testEnvironment();
  const html = { "content-type": "text/html" };
  const answers: (() => Response)[] = [
    () => new Response("<script>1</script>", { headers: html }),
    () => new Response("<script>1</script>", { headers: { ...html, "content-security-policy": "script-src *" } }),
    () => new Response(null, { status: 204 }),
    () => {
      throw new HttpError(400, "<script>1</script>");
    },
  ];
  for (const answer of answers) {
    const release = webhooks.register("/hooks/a", async () => answer());
    for (const method of ["GET", "POST"]) {
      const { headers } = await call(`${method} /hooks/a`, { cookie: "tenancy-session=x" });
      assert.is(headers.get("content-security-policy"), "default-src 'none'; sandbox");
      assert.is(headers.get("cross-origin-resource-policy"), "same-origin");
      assert.is(headers.get("x-content-type-options"), "nosniff");
      assert.is(headers.get("cache-control"), "no-store");
    }
    release();
  }
});

test("what a webhook throws is answered as everywhere, without internals", async () => {
  const { webhooks, call } = testEnvironment();
  webhooks.register("/hooks/a", () => Promise.reject(new Error("10.0.0.1 refused")));
  const response = await call("POST /hooks/a");
  assert.is(response.status, 500);
  assert.not.match(await response.text(), "10.0.0.1");
});

test("who holds a path last has it, and only its holder gives it up", async () => {
  const { webhooks, call } = testEnvironment();
  const releaseOld = webhooks.register("/hooks/a", async () => new Response("old"));
  const releaseNew = webhooks.register("/hooks/a", async () => new Response("new"));
  releaseOld();
  assert.is(await (await call("POST /hooks/a")).text(), "new");
  releaseNew();
  assert.is((await call("POST /hooks/a")).status, 401);
});

test.run();
