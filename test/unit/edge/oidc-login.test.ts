// @runtimes bun node deno
// The provider is a real one; test/browser/login-oidc.ts logs in with a real browser.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import { createLog } from "../../../crds/log.ts";
import { createDeferred } from "../../../crds/waits.ts";
import type { Fetch } from "../../../edge/access/oidc/fetch-bounded.ts";
import type { OidcConfig } from "../../../edge/access/oidc/oidc-config.ts";
import { createTokens } from "../../../edge/access/tokens.ts";
import { eventually } from "../../eventually.ts";
import { type OidcProvider, startOidcProvider } from "../../oidc/provider.ts";
import { oidc } from "../access/oidc/fake-issuer.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("login at an OIDC provider");
const KEY = "root-key";
const PATH = "/api/v1/session/oidc";
const redirectUrl = `https://tenancy.example.com${PATH}/callback`;
const own = { "sec-fetch-site": "same-origin" };
let provider: OidcProvider;
const edges: TestEdge[] = [];
const lines: string[] = [];
const log = createLog({ program: "edge", level: "debug", destination: { write: (line) => void lines.push(line) } });
const closes: (() => void)[] = [];

test.before(async () => {
  provider = await startOidcProvider(
    {
      alice: { groups: ["customers"], tenants: ["alice", "team-a"] },
      olga: { groups: ["ops"] },
      many: { groups: ["customers"], tenants: Array.from({ length: 100 }, (_, at) => `${"t".repeat(55)}-${at}`) },
      mallory: { groups: ["others"] },
    },
    { redirectUris: [redirectUrl] },
  );
});
test.after(async () => {
  for (const close of closes) close();
  await provider?.stop();
});

function edgeWith(
  more: { config?: Partial<OidcConfig>; login?: object; clock?: Clock; apiKey?: string; fetch?: Fetch } = {},
): TestEdge {
  const { clock = systemClock, apiKey = KEY } = more;
  const login = {
    clientId: "dashboard",
    clientSecret: "secret of the dashboard",
    redirectUrl,
    scopes: "openid",
    sessionMs: 14_400_000,
    ...more.login,
  };
  const config = { ...oidc, issuer: provider.issuer, login, ...more.config };
  const tokens = createTokens({ apiKey, oidc: config, clock, log, ...(more.fetch && { fetch: more.fetch }) });
  const edge = testEdge({ apiKey, tokens, clock });
  closes.push(tokens.close, () => edge.sessions?.close());
  edges.push(edge);
  return edge;
}

/** A login that a browser has started. */
async function start(edge: TestEdge, query = ""): Promise<{ location: string; cookie: string }> {
  const { status, headers, text } = await edge.call(`GET ${PATH}${query}`);
  assert.is(status, 303, text);
  const [cookie = "", ...others] = headers.getSetCookie();
  assert.equal(others, []);
  assert.match(
    cookie,
    /^__Host-tenancy-login=[\w-]+\.[\w-]{43}; Max-Age=600; Path=\/; Secure; HttpOnly; SameSite=Lax$/,
  );
  return { location: headers.get("location") ?? "", cookie: cookie.split(";")[0] ?? "" };
}

/** The answer to a browser that the provider has sent back. */
async function comeBack(edge: TestEdge, address: string, cookie: string) {
  const { pathname, search } = new URL(address);
  const answer = await edge.call(`GET ${pathname}${search}`, { headers: { cookie, "sec-fetch-site": "cross-site" } });
  const cookies = answer.headers.getSetCookie();
  const session = cookies.find((one) => one.startsWith("tenancy-session="));
  return { ...answer, cookies, session: session?.split(";")[0] ?? "", location: answer.headers.get("location") };
}

async function logIn(edge: TestEdge, account: string): Promise<string> {
  const { location, cookie } = await start(edge);
  const answer = await comeBack(edge, await provider.signIn(account, location), cookie);
  assert.is(answer.status, 303, answer.text);
  return answer.session;
}

function changed(address: string, name: string, value: string): string {
  const url = new URL(address);
  url.searchParams.set(name, value);
  return url.href;
}

async function statusOf(edge: TestEdge, target: string, cookie: string): Promise<number> {
  return (await edge.call(target, { headers: { ...own, cookie } })).status;
}

test("a person who logs in gets a session with the rights of the groups, which ends by itself", async () => {
  const edge = edgeWith();
  const { location, cookie } = await start(edge, "?to=%2Fdashboard%2Fclaims%3Ftenant%3Dalice");
  const asked = new URL(location);
  assert.is(asked.origin, provider.issuer);
  const { state, nonce, code_challenge: challenge, ...rest } = Object.fromEntries(asked.searchParams);
  assert.equal(rest, {
    client_id: "dashboard",
    response_type: "code",
    redirect_uri: redirectUrl,
    scope: "openid",
    code_challenge_method: "S256",
  });
  assert.is(new Set([state, nonce, challenge]).size, 3);
  for (const value of [state, nonce, challenge]) assert.match(value ?? "", /^[\w-]{43}$/);

  const answer = await comeBack(edge, await provider.signIn("alice", location), cookie);
  assert.is(answer.status, 303, answer.text);
  assert.is(answer.location, "/dashboard/claims?tenant=alice");
  assert.is(answer.headers.get("referrer-policy"), "no-referrer");
  const [forgotten = "", issued = ""] = answer.cookies;
  assert.is(forgotten, "__Host-tenancy-login=; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Lax");
  assert.match(issued, /^tenancy-session=v3\.\S+; Max-Age=14400; Path=\/; HttpOnly; SameSite=Strict; Secure$/);
  const { session } = answer;
  assert.is(await statusOf(edge, "GET /api/v1/tenants/alice", session), 200);
  assert.is(await statusOf(edge, "GET /api/v1/tenants/bob", session), 404);
  assert.is(await statusOf(edge, "GET /api/v1/tenants", session), 403);
  assert.is(await statusOf(edge, "GET /api/v1/keys", session), 403);
  const { json } = await edge.call("GET /api/v1/session", { headers: { ...own, cookie: session } });
  const { expiresAt, ...shown } = json as { expiresAt: string };
  const may = { role: "tenant", tenants: ["alice", "team-a"] };
  assert.equal(shown, { asksForKey: true, active: true, ...may, provider: new URL(provider.issuer).host });
  const seconds = Number(new Date(expiresAt)) / 1000;
  const late = edgeWith({ clock: { ...systemClock, now: () => seconds * 1000 } });
  assert.is(await statusOf(late, "GET /api/v1/tenants/alice", session), 401);
  // A write from another site's page is refused as with a key's session.
  const foreign = { cookie: session, "sec-fetch-site": "cross-site" };
  assert.is((await edge.call("POST /api/v1/tenants/alice/release", { body: {}, headers: foreign })).status, 403);
});

test("another replica finishes a login and takes its session; one with other settings does neither", async () => {
  const edge = edgeWith();
  const { location, cookie } = await start(edge);
  const replica = edgeWith();
  const answer = await comeBack(replica, await provider.signIn("olga", location), cookie);
  assert.is(answer.status, 303, answer.text);
  assert.is(await statusOf(edge, "DELETE /api/v1/workloads/x", answer.session), 404);
  for (const more of [
    { config: { roles: [{ group: "ops", role: "reader" }] as const } },
    { config: { audience: undefined } },
    { login: { clientId: "other" } },
    { apiKey: "another-key" },
  ]) {
    const other = edgeWith(more);
    assert.is(await statusOf(other, "GET /api/v1/workloads", answer.session), 401, JSON.stringify(more));
    assert.is((await comeBack(other, `${redirectUrl}?code=x&state=y`, cookie)).status, 400);
  }
  const without = testEdge({ apiKey: KEY, clock: systemClock });
  assert.is(await statusOf(without, "GET /api/v1/workloads", answer.session), 401);
});

test("a changed session is none", async () => {
  const edge = edgeWith();
  const session = await logIn(edge, "alice");
  const [start_ = "", content = "", ...rest] = session.split(".");
  const claims = JSON.parse(Buffer.from(content, "base64url").toString());
  const { tenants: _, ...all } = claims;
  for (const forged of [
    { ...claims, tenants: ["bob"] },
    { ...all, role: "admin" },
    { ...claims, id: "olga" },
  ]) {
    const text = Buffer.from(JSON.stringify(forged)).toString("base64url");
    assert.is(await statusOf(edge, "GET /api/v1/tenants/bob", [start_, text, ...rest].join(".")), 401);
  }
  const later = [start_, content, "zzzzzzzz", ...rest.slice(1)].join(".");
  assert.is(await statusOf(edge, "GET /api/v1/tenants/alice", later), 401);
});

test("a login that this browser has not started, or whose state, nonce or verifier is another, is refused", async () => {
  const edge = edgeWith();
  const mine = await start(edge);
  const other = await start(edge);
  const back = await provider.signIn("olga", mine.location);
  assert.is((await comeBack(edge, back, "")).status, 400);
  assert.is((await comeBack(edge, back, other.cookie)).status, 400);
  assert.is((await comeBack(edge, back, mine.cookie.slice(0, -1))).status, 400);
  assert.is((await comeBack(edge, changed(back, "state", "other"), mine.cookie)).status, 400);
  const slow = edgeWith({ clock: { ...systemClock, now: () => systemClock.now() + 600_001 } });
  assert.is((await comeBack(slow, back, mine.cookie)).status, 400);
  const refused = async (name: string, value: string) => {
    const { location, cookie } = await start(edge);
    const answer = await comeBack(edge, await provider.signIn("olga", changed(location, name, value)), cookie);
    assert.is(answer.session, "");
    return answer.status;
  };
  assert.is(await refused("nonce", "a".repeat(43)), 401);
  assert.is(await refused("state", "a".repeat(43)), 400);
  const { searchParams } = new URL(other.location);
  assert.is(await refused("code_challenge", searchParams.get("code_challenge") ?? ""), 401);
  // The code of another person's login.
  const theirs = await provider.signIn("alice", other.location);
  const code = new URL(theirs).searchParams.get("code") ?? "";
  const next = await start(edge);
  const injected = changed(await provider.signIn("olga", next.location), "code", code);
  assert.is((await comeBack(edge, injected, next.cookie)).status, 401);
  // The right one goes on, once.
  assert.is((await comeBack(edge, back, mine.cookie)).status, 303);
  const again = await comeBack(edge, back, mine.cookie);
  assert.equal([again.status, again.session], [400, ""]);
});

test("a login can be tried once, also at the same time, and again only if the provider was away", async () => {
  let asked = 0;
  let isAway = false;
  const edge = edgeWith({
    async fetch(url, init) {
      if (init.method === "POST") asked += 1;
      if (init.method === "POST" && isAway) throw new Error("away");
      return await fetch(url, init);
    },
  });
  const { location, cookie } = await start(edge);
  const back = await provider.signIn("olga", location);
  const wrong = changed(back, "code", "guessed");
  const answers = await Promise.all(Array.from({ length: 5 }, () => comeBack(edge, wrong, cookie)));
  assert.equal(answers.map(({ status }) => status).sort(), [400, 400, 400, 400, 401]);
  assert.is((await comeBack(edge, back, cookie)).status, 400);
  assert.is(asked, 1);

  const later = await start(edge);
  const found = await provider.signIn("olga", later.location);
  isAway = true;
  assert.is((await comeBack(edge, found, later.cookie)).status, 503);
  isAway = false;
  assert.is((await comeBack(edge, found, later.cookie)).status, 303);
});

test("what the provider refuses is said, and what comes from the address is cut", async () => {
  const edge = edgeWith();
  const cameBack = async (content: (state: string) => string) => {
    const { location, cookie } = await start(edge);
    const state = new URL(location).searchParams.get("state") ?? "";
    return await comeBack(edge, `${redirectUrl}?${content(state)}`, cookie);
  };
  const answered = (error: string) =>
    cameBack((state) => new URLSearchParams({ state, error, iss: provider.issuer }).toString());
  const denied = await answered("access_denied");
  assert.is(denied.status, 401);
  assert.match(denied.error ?? "", '"access_denied"');
  const long = await answered(`<script>${"x".repeat(1000)}`);
  assert.is(long.status, 401);
  assert.ok((long.error ?? "").length < 300);
  assert.is((await cameBack((state) => `code=a&code=b&state=${state}`)).status, 401);
  assert.is((await cameBack((state) => `state=${state}`)).status, 401);
});

test("a person without a role, or with more tenants than a cookie holds, gets 403 and no session", async () => {
  const edge = edgeWith();
  for (const [account, words] of [
    ["mallory", "claim groups"],
    ["many", "more tenants than fit"],
  ] as const) {
    const { location, cookie } = await start(edge);
    const answer = await comeBack(edge, await provider.signIn(account, location), cookie);
    assert.equal([answer.status, answer.session], [403, ""]);
    assert.match(answer.error ?? "", words);
  }
});

test("a login continues on a page of the dashboard, never elsewhere", async () => {
  const edge = edgeWith();
  for (const to of [
    "https://evil.example/",
    "//evil.example/dashboard",
    "/\\evil.example/dashboard",
    "\\\\evil.example",
    "/dashboard/../api/v1/keys",
    "/dashboard/%2e%2e/hooks/a",
    "/dashboard/..\\..\\hooks/a",
    "/dashboardx",
    "/api/v1/session/oidc",
    "javascript:alert(1)",
    "/\t/evil.example",
    "dashboard",
    "",
    `/dashboard/${"x".repeat(2000)}`,
  ])
    assert.is((await edge.call(`GET ${PATH}?to=${encodeURIComponent(to)}`)).status, 400, to);
  for (const to of ["/", "/dashboard", "/dashboard/claims/alice/hello?edit=1"]) {
    const { cookie } = await start(edge, `?to=${encodeURIComponent(to)}`);
    const [, text = ""] = /=([\w-]+)\./.exec(cookie) ?? [];
    assert.is(JSON.parse(Buffer.from(text, "base64url").toString()).to, to);
  }
});

test("a wrong client secret, and a provider that is away, are said as what they are", async () => {
  const wrong = edgeWith({ login: { clientSecret: "wrong" } });
  const { location, cookie } = await start(wrong);
  const refused = await comeBack(wrong, await provider.signIn("olga", location), cookie);
  assert.is(refused.status, 401);
  assert.match(refused.error ?? "", '"invalid_client"');
  const away = edgeWith({ config: { issuer: "http://localhost:9" } });
  assert.is((await away.call(`GET ${PATH}`)).status, 503);
  assert.is((await away.call("GET /api/v1/session")).status, 200);
});

test("without a client there is no login", async () => {
  const edge = testEdge({ apiKey: KEY });
  assert.is((await edge.call(`GET ${PATH}`)).status, 401);
  assert.equal((await edge.call("GET /api/v1/session")).json, { asksForKey: true, active: false });
});

test("no answer and no line of the log has a code, a token or a secret", () => {
  assert.ok(lines.some((line) => line.includes("a login by OpenID has failed")));
  for (const text of [...lines, ...edges.map((edge) => JSON.stringify([edge.log, edge.answers]))])
    assert.not.match(text, /secret of|code=|state=|eyJ/);
});

test("a stranger who holds up logins leaves places to people at other addresses", async () => {
  const held = createDeferred<void>();
  let asked = 0;
  const edge = edgeWith({
    async fetch(url, init) {
      if (init.method === "POST" && String(init.body).includes("code=junk")) {
        asked += 1;
        await held.promise;
      }
      return await fetch(url, init);
    },
  });
  const from = async (address: string, location: string, cookie: string): Promise<number> => {
    const { pathname, search } = new URL(location);
    const request = new Request(`http://edge.test${pathname}${search}`, { headers: { cookie } });
    return (await edge.handler(request, { peerOf: () => address })).status;
  };
  const junk = async (address: string) => {
    const { location, cookie } = await start(edge);
    const state = new URL(location).searchParams.get("state");
    return from(address, `${redirectUrl}?code=junk&state=${state}&iss=${provider.issuer}`, cookie);
  };
  // Addresses of one network share its places.
  const networks = [1, 2, 3, 4].map((one) => (host: number) => `2001:db8:${one}:${host}::1`);
  const answers = networks.flatMap((addressOf) => Array.from({ length: 30 }, (_, host) => junk(addressOf(host))));
  await eventually(() => asked === 4 * 8);
  const mine = await start(edge);
  const back = await provider.signIn("olga", mine.location);
  assert.is(await from("192.0.2.2", back, mine.cookie), 303);
  held.resolve();
  await Promise.all(answers);
});

test.run();
