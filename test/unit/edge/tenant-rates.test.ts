// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readQuotas, type TenantQuotas } from "../../../crds/quotas/tenant-quotas.ts";
import type { Actor } from "../../../edge/access/actor.ts";
import { answerAs } from "../../../edge/access/answer-as.ts";
import { createTenantRates } from "../../../edge/access/tenant-rates.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { readUpload } from "../../../edge/http/upload.ts";
import { manualClock } from "../manual-clock.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("the rates of tenants");

function quotasOf(limits: object): { current: () => TenantQuotas; problem: () => undefined } {
  const quotas = readQuotas({ data: { "quotas.yaml": JSON.stringify({ tenants: { a: limits, "b*": limits } }) } });
  if (typeof quotas === "string") throw new Error(quotas);
  return { current: () => quotas, problem: () => undefined };
}

/** "ok", or the seconds and the message of the refusal. */
function asked(rates: ReturnType<typeof createTenantRates>, tenantId: string): string {
  try {
    rates.admit(tenantId);
    return "ok";
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    assert.is(error.status, 429);
    return `${error.headers["retry-after"]} ${error.message}`;
  }
}

test("a tenant may make the requests of a second at once, and more as time passes", async () => {
  const clock = manualClock();
  const rates = createTenantRates({ quotas: quotasOf({ requestsPerSecond: 2 }), clock });
  const refused = '1 tenant "a" has used up its 2 requests a second (requestsPerSecond); try again in 1 s';
  assert.equal(
    [1, 2, 3].map(() => asked(rates, "a")),
    ["ok", "ok", refused],
  );
  assert.equal([asked(rates, "b1"), asked(rates, "b2"), asked(rates, "free")], ["ok", "ok", "ok"]);
  await clock.pass(500);
  assert.equal(
    [1, 2].map(() => asked(rates, "a")),
    ["ok", refused],
  );
  await clock.pass(60_000);
  assert.equal(
    [1, 2, 3].map(() => asked(rates, "a")),
    ["ok", "ok", refused],
  );
});

test("bytes end no request, and later ones wait until they are made up for, a minute at most", async () => {
  const clock = manualClock();
  const rates = createTenantRates({ quotas: quotasOf({ bytesPerSecond: 100 }), clock });
  assert.is(asked(rates, "a"), "ok");
  rates.addBytes("a", 600);
  assert.match(
    asked(rates, "a"),
    /^5 tenant "a" has used up its 100 bytes a second \(bytesPerSecond\); try again in 5 s$/,
  );
  await clock.pass(5010);
  assert.is(asked(rates, "a"), "ok");
  rates.addBytes("a", 1e12);
  assert.match(asked(rates, "a"), /^60 /);
  await clock.pass(60_010);
  assert.is(asked(rates, "a"), "ok");
});

test("strangers have half as much, and take nothing of the tenant's own", () => {
  const rates = createTenantRates({
    quotas: quotasOf({ requestsPerSecond: 4, bytesPerSecond: 10 }),
    clock: manualClock(),
  });
  const strangers = { isStranger: true };
  for (let at = 0; at < 2; at += 1) rates.admit("a", strangers);
  assert.throws(() => rates.admit("a", strangers), /2 requests a second/);
  rates.addBytes("a", 1000, strangers);
  assert.throws(() => rates.admit("a", strangers), /5 bytes a second/);
  assert.equal(
    [1, 2, 3, 4].map(() => asked(rates, "a")),
    ["ok", "ok", "ok", "ok"],
  );
});

test("0 allows nothing", () => {
  const rates = createTenantRates({ quotas: quotasOf({ requestsPerSecond: 0 }), clock: manualClock() });
  assert.match(asked(rates, "a"), /^60 /);
});

test("requests of a tenant's key count, those of the platform do not", async () => {
  const { signal } = new AbortController();
  const actor: Actor = { kind: "key", id: "t", ref: "t-1", role: "tenant", tenants: ["a", "b*"], ended: signal };
  const keys = { actorOf: (text: string) => (text === "tk" ? actor : undefined), actorWithRef: () => undefined };
  const edge = testEdge({ apiKey: "root", keys, quotas: quotasOf({ requestsPerSecond: 2 }) });
  const call = async (key: string, path: string) => {
    const { status, headers } = await edge.call(`GET /api/v1/${path}`, { headers: { authorization: `Bearer ${key}` } });
    return status === 429 ? `429 ${headers.get("retry-after")}` : String(status);
  };
  assert.is(await call("tk", "tenants/a"), "200");
  assert.is(await call("tk", "claims?tenant=a"), "200");
  assert.is(await call("tk", "tenants/a"), "429 1");
  assert.is(await call("tk", "tenants/b1"), "200");
  // One tenant is not told of another's limits.
  assert.is(await call("tk", "tenants/other"), "404");
  for (let at = 0; at < 4; at += 1) assert.is(await call("root", "tenants/a"), "200");
});

test("the bytes of uploads and of streamed answers count", async () => {
  const { signal } = new AbortController();
  const actor: Actor = { kind: "key", id: "t", ref: "t-1", role: "tenant", tenants: ["a"], ended: signal };
  const [received, sent]: [number[], number[]] = [[], []];
  const request = Object.assign(new Request("http://edge.test/", { method: "PUT", body: new Uint8Array(1000) }), {
    onReceived: (bytes: number) => void received.push(bytes),
  });
  const answer = await answerAs(
    actor,
    { request, context: {}, access: undefined, onSent: (bytes) => void sent.push(bytes) },
    async (given) => {
      const upload = readUpload(given, { limit: 5000, clientGone: undefined });
      for await (const _ of upload.chunks);
      return new Response(new Uint8Array(700), { headers: { "content-type": "application/gzip" } });
    },
  );
  assert.is((await answer.arrayBuffer()).byteLength, 700);
  const sum = (counts: number[]) => counts.reduce((all, one) => all + one, 0);
  assert.equal([sum(received), sum(sent)], [1000, 700]);
});

test("a key may make its own requests of a second, whatever it asks for, and no other key pays for it", async () => {
  const ended = new AbortController().signal;
  const key = (id: string, more: Partial<Actor> = {}): Actor => {
    return { kind: "key", id, ref: `${id}-1`, role: "tenant", tenants: ["a", "free"], ended, ...more };
  };
  const actors: Record<string, Actor> = { two: key("two", { requestsPerSecond: 2 }), any: key("any") };
  const keys = { actorOf: (text: string) => actors[text], actorWithRef: (ref: string) => actors[ref.slice(0, -2)] };
  const edge = testEdge({ apiKey: "root", keys, quotas: quotasOf({ requestsPerSecond: 3 }) });
  const ask = async (key: string, path = "/api/v1/tenants/free") => {
    const { status, error, headers } = await edge.call(`GET ${path}`, { headers: { authorization: `Bearer ${key}` } });
    return status === 429 ? `${headers.get("retry-after")} ${error}` : status;
  };
  const refused =
    "1 key two has used up its 2 requests a second (requestsPerSecond of the key) on this replica; try again in 1 s";
  assert.equal([await ask("two"), await ask("two", "/api/v1/nowhere"), await ask("two")], [200, 404, refused]);
  assert.equal([await ask("any"), await ask("root")], [200, 200]);
  await edge.clock.pass(500);
  assert.equal([await ask("two", "/api/v1/keys"), await ask("two", "/api/v1/keys")], [403, refused]);

  // The session of a browser counts for its key.
  await edge.clock.pass(1000);
  const own = { "sec-fetch-site": "same-origin", host: "edge.test" };
  const login = await edge.call("POST /api/v1/session", { body: { key: "two" }, headers: own });
  const headers = { ...own, cookie: login.headers.getSetCookie()[0]?.split(";")[0] ?? "" };
  const bySession = async () => (await edge.call("GET /api/v1/tenants/free", { headers })).status;
  assert.equal([await bySession(), await bySession(), await bySession(), await ask("two")], [200, 200, 429, refused]);

  // The quota of a tenant holds beside it, for all keys together.
  await edge.clock.pass(1000);
  const ofTenant = "/api/v1/tenants/a";
  const used = [await ask("two", ofTenant), await ask("any", ofTenant), await ask("two", ofTenant)];
  assert.equal(used, [200, 200, 200]);
  assert.match(String(await ask("any", ofTenant)), 'tenant "a" has used up its 3 requests a second');
});

test.run();
