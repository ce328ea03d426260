// @runtimes bun
// The provider is a real one; its faults are in test/unit/access/oidc.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import { createTokens, type Tokens } from "../../../edge/access/tokens.ts";
import { type OidcProvider, startOidcProvider } from "../../oidc/provider.ts";
import { oidc } from "../access/oidc/fake-issuer.ts";
import { silentLog } from "../silent-log.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("bearer tokens of an OIDC provider");
let provider: OidcProvider;
let tokens: Tokens;
let edge: TestEdge;

test.before(async () => {
  provider = await startOidcProvider({
    alices: { groups: ["customers"], tenants: ["alice", "team-a"] },
    operator: { groups: ["ops"] },
    watcher: { groups: ["auditors"] },
    stranger: { groups: ["others"] },
  });
  const config = { ...oidc, issuer: provider.issuer };
  tokens = createTokens({ apiKey: "root", oidc: config, clock: systemClock, log: silentLog, cooldownMs: 0 });
  edge = testEdge({ apiKey: "root", requireKey: true, tokens, clock: systemClock });
});
test.after(async () => {
  tokens?.close();
  await provider?.stop();
});

async function statusOf(target: string, token: string, body?: object): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  return (await edge.call(target, { headers, ...(body !== undefined && { body }) })).status;
}

test("a program with the role tenant reaches its tenants, and no other", async () => {
  const token = await provider.tokenFor("alices");
  assert.is(await statusOf("GET /api/v1/tenants/alice", token), 200);
  assert.is(await statusOf("GET /api/v1/tenants/team-a", token), 200);
  assert.is(await statusOf("GET /api/v1/tenants/bob", token), 404);
  assert.is(await statusOf("GET /api/v1/tenants/team-ab", token), 404);
  assert.is(await statusOf("GET /api/v1/tenants", token), 403);
  assert.is(await statusOf("GET /api/v1/keys", token), 403);
});

test("a group is a role", async () => {
  assert.is(await statusOf("DELETE /api/v1/workloads/x", await provider.tokenFor("operator")), 404);
  const watcher = await provider.tokenFor("watcher");
  assert.is(await statusOf("GET /api/v1/workloads", watcher), 200);
  assert.is(await statusOf("DELETE /api/v1/workloads/x", watcher), 403);
  const headers = { authorization: `Bearer ${await provider.tokenFor("stranger")}` };
  const { status, error } = await edge.call("GET /api/v1/workloads", { headers });
  assert.is(status, 403);
  assert.match(error ?? "", "no role");
});

test("a token that the provider issued for another service gets 401 and says why", async () => {
  const headers = { authorization: `Bearer ${await provider.tokenFor("operator", "urn:another")}` };
  const { status, error, headers: answered } = await edge.call("GET /api/v1/workloads", { headers });
  assert.is(status, 401);
  assert.match(error ?? "", "aud");
  assert.match(answered.get("www-authenticate") ?? "", 'error="invalid_token"');
});

test("the provider's keys may change while the edge runs", async () => {
  const former = await provider.tokenFor("operator");
  assert.is(await statusOf("GET /api/v1/workloads", former), 200);
  await provider.rotate();
  assert.is(await statusOf("GET /api/v1/workloads", await provider.tokenFor("operator")), 200);
});

test("a token is no key of the login form", async () => {
  const headers = { "sec-fetch-site": "same-origin" };
  const guess = edge.call("POST /api/v1/session", { body: { key: await provider.tokenFor("operator") }, headers });
  assert.is((await guess).status, 401);
});

test.run();
