// @runtimes bun node deno
import { exportJWK, exportSPKI, generateKeyPair } from "jose";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Actor } from "../../../../edge/access/actor.ts";
import { createTokens, type Tokens } from "../../../../edge/access/tokens.ts";
import { HttpError } from "../../../../edge/http/http-error.ts";
import { type ManualClock, manualClock, turns } from "../../manual-clock.ts";
import { silentLog } from "../../silent-log.ts";
import { type FakeIssuer, fakeIssuer, ISSUER, oidc } from "./fake-issuer.ts";

const test = suite("tokens of an issuer");

/** jose reads the system's clock for the age of keys. */
const START = new Date().toISOString();

interface Stage {
  clock: ManualClock;
  issuer: FakeIssuer;
  tokens: Tokens;
}

async function stage(options: { keysMs?: number; cooldownMs?: number; alg?: string } = {}): Promise<Stage> {
  const clock = manualClock(START);
  const issuer = fakeIssuer(clock.now);
  await issuer.addKey("first", options.alg);
  const from = { oidc, clock, steady: clock, fetch: issuer.fetch };
  const tokens = createTokens({ apiKey: "root", log: silentLog, ...from, ...options });
  return { clock, issuer, tokens };
}

async function actorOf({ tokens }: Pick<Stage, "tokens">, text: string): Promise<Actor> {
  const actor = await tokens.actorOf(text);
  assert.ok(actor);
  return actor;
}

/** The status and the words of a refusal. */
async function refusalOf({ tokens }: Pick<Stage, "tokens">, text: string): Promise<[number, string]> {
  try {
    await tokens.actorOf(text);
  } catch (error) {
    if (error instanceof HttpError) return [error.status, error.message];
    throw error;
  }
  return [0, "accepted"];
}

for (const alg of ["RS256", "PS256", "ES256", "EdDSA"])
  test(`a token that the issuer has signed with ${alg} is its subject until it ends`, async () => {
    const on = await stage({ alg });
    const text = await on.issuer.token({ groups: ["customers"], tenants: ["a", "b"] });
    const actor = await actorOf(on, text);
    assert.equal([actor.kind, actor.id, actor.role, actor.tenants], ["person", "alice", "tenant", ["a", "b"]]);
    assert.is(on.tokens.actorOf(text), actor);
    await on.clock.pass(3600_000 + 59_000);
    assert.not.ok(actor.ended.aborted);
    assert.is(on.tokens.holds(actor.ref), true);
    await on.clock.pass(2000);
    assert.ok(actor.ended.aborted);
    assert.is(on.tokens.holds(actor.ref), false);
    assert.is((await refusalOf(on, text))[0], 401);
    on.tokens.close();
    assert.is(on.clock.pending(), 0);
  });

test("a token that is not for this service, not now, or not signed by the issuer is refused with the reason", async () => {
  const on = await stage();
  const { issuer, clock } = on;
  const seconds = Math.floor(clock.now() / 1000);
  const other = await generateKeyPair("RS256", { extractable: true });
  const jwk = await exportJWK(other.publicKey);
  const cases: [string, Promise<string>, RegExp][] = [
    ["audience", issuer.token({ aud: "another" }), /"aud"/],
    ["ID token of the dashboard", issuer.token({ aud: "dashboard", nonce: "n" }), /"aud"/],
    ["no audience", issuer.token({ aud: undefined }), /"aud"/],
    ["issuer", issuer.token({ iss: "https://login.example.com" }), /"iss"/],
    ["expired", issuer.token({ exp: seconds - 61 }), /"exp"/],
    ["no end", issuer.token({ exp: undefined }), /"exp"/],
    ["not yet", issuer.token({ nbf: seconds + 61 }), /"nbf"/],
    ["no subject", issuer.token({ sub: undefined }), /"sub"/],
    ["line break", issuer.token({ sub: "alice\nroot" }), /sub/],
    ["long subject", issuer.token({ sub: "a".repeat(256) }), /sub/],
    ["logout", issuer.token({}, { typ: "logout+jwt" }), /typ/],
    ["DPoP", issuer.token({ cnf: { jkt: "x" } }), /bound/],
    ["other key", issuer.token({}, {}, other.privateKey), /signature/],
    ["its own key", issuer.token({}, { jwk, jku: "https://evil.example/keys" }, other.privateKey), /signature/],
    ["unknown kid", issuer.token({}, { kid: "other" }, other.privateKey), /no applicable key/],
    ["RS384", issuer.token({}, { alg: "RS384" }, (await generateKeyPair("RS384")).privateKey), /"alg"/],
  ];
  for (const [name, text, words] of cases) {
    const [status, message] = await refusalOf(on, await text);
    assert.is(status, 401, `${name}: ${message}`);
    assert.match(message, words, name);
  }
  for (const claims of [{ exp: seconds - 59 }, { nbf: seconds + 59 }, { aud: ["another", "tenancy-api"] }])
    await actorOf(on, await issuer.token(claims));
  assert.equal([...new Set(issuer.fetched)], [issuer.urls.discovery, issuer.urls.keys]);
});

test("neither an unsigned token nor one signed with the public key as a secret is a token", async () => {
  const on = await stage();
  const publicKey = await on.issuer.addKey("second");
  const good = await on.issuer.token();
  await actorOf(on, good);
  const [, payload, signature] = good.split(".");
  const header = (alg: string) => Buffer.from(JSON.stringify({ alg, kid: "second" })).toString("base64url");
  for (const alg of ["none", "None", "NONE"]) {
    assert.is(on.tokens.actorOf(`${header(alg)}.${payload}.`), undefined);
    assert.is((await refusalOf(on, `${header(alg)}.${payload}.${signature}`))[0], 401, alg);
  }
  const { kty, n, e } = await exportJWK(publicKey);
  const spki = await exportSPKI(publicKey);
  for (const secret of [spki, spki.trim(), JSON.stringify({ kty, n, e }), JSON.stringify({ e, kty, n })]) {
    const forged = await on.issuer.token({}, { alg: "HS256" }, new TextEncoder().encode(secret));
    const [status, message] = await refusalOf(on, forged);
    assert.is(status, 401);
    assert.match(message, /"alg"/);
  }
});

test("a text that has not the form of a token costs no fetch, also one of a megabyte", async () => {
  const on = await stage();
  for (const text of ["", "tk_x", "eyJ", "eyJhbGciOiJub25lIn0.e30.", "eyJ.a.b", "eyJa.b.c.d", "eyJa.b c.d"])
    assert.is(on.tokens.actorOf(text), undefined, text);
  const [status, message] = await refusalOf(on, `eyJ${"a".repeat(1024 * 1024)}.e30.x`);
  assert.is(status, 401);
  assert.match(message, "8192");
  assert.equal(on.issuer.fetched, []);
  const long = await on.issuer.token({ groups: ["ops"], more: "x".repeat(7000) });
  assert.is((await refusalOf(on, long))[0], long.length > 8192 ? 401 : 0);
});

test("a token without a role or a tenant here gets 403 with the name of the claim", async () => {
  const on = await stage();
  const cases: [object, RegExp][] = [
    [{ groups: undefined }, /claim groups/],
    [{ groups: ["other"] }, /claim groups/],
    [{ groups: { ops: true } }, /claim groups/],
    [{ groups: ["ops", 1] }, /claim groups/],
    [{ groups: "ops,apps" }, /claim groups/],
    [{ groups: ["customers"] }, /claim tenants/],
    [{ groups: ["customers"], tenants: [] }, /claim tenants/],
    [{ groups: ["customers"], tenants: "*" }, /not a tenant id/],
    [{ groups: ["customers"], tenants: ["a", "team-*"] }, /not a tenant id/],
    [{ groups: ["customers"], tenants: "a,b" }, /not a tenant id/],
    [{ groups: ["customers"], tenants: ["a", null] }, /claim tenants/],
    [{ groups: ["customers"], tenants: Array(101).fill("a") }, /more than 100/],
    [{ groups: ["support"], tenants: ["a", "*"] }, /not a tenant id/],
    [{ groups: ["support"], tenants: [] }, /claim tenants/],
  ];
  for (const [claims, words] of cases) {
    const [status, message] = await refusalOf(on, await on.issuer.token(claims));
    assert.is(status, 403, JSON.stringify(claims));
    assert.match(message, words);
  }
});

test("the first entry of the setting whose group a token has is its role", async () => {
  const on = await stage();
  const cases: [object, string, unknown][] = [
    [{ groups: "ops", tenants: ["a"] }, "admin", undefined],
    [{ groups: ["support", "apps"] }, "platform", undefined],
    [{ groups: ["support", "customers"], tenants: "a" }, "tenant", ["a"]],
    [{ groups: ["auditors"], tenants: "a" }, "reader", undefined],
    [{ groups: ["support"], tenants: "a" }, "reader", ["a"]],
  ];
  for (const [claims, role, tenants] of cases) {
    const actor = await actorOf(on, await on.issuer.token(claims));
    assert.equal([actor.role, actor.tenants], [role, tenants]);
  }
  // A provider that leaves out an empty claim gives no more than it gave before.
  const [status, said] = await refusalOf(on, await on.issuer.token({ groups: ["support"], tenants: undefined }));
  assert.is(status, 403);
  assert.match(said, "reaches no tenant");
});

const faults: [string, (on: Stage) => void][] = [
  ["has no keys", ({ issuer }) => issuer.answers.set(issuer.urls.keys, () => Response.json({}))],
  ["answers with HTML", ({ issuer }) => issuer.answers.set(issuer.urls.keys, () => new Response("<html>"))],
  [
    "answers with 500",
    ({ issuer }) => issuer.answers.set(issuer.urls.discovery, () => Response.json({}, { status: 500 })),
  ],
  [
    "redirects into the cluster",
    ({ issuer }) => issuer.answers.set(issuer.urls.keys, () => Response.redirect("https://169.254.169.254/keys", 307)),
  ],
  [
    "sends keys without an end",
    ({ issuer }) =>
      issuer.answers.set(
        issuer.urls.keys,
        () => new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) })),
      ),
  ],
  ["is another one", ({ issuer }) => void Object.assign(issuer.metadata, { issuer: `${ISSUER}/other` })],
  [
    "has its keys on this machine",
    ({ issuer }) => void Object.assign(issuer.metadata, { jwks_uri: "http://127.0.0.1/" }),
  ],
  [
    "has keys without TLS",
    ({ issuer }) => void Object.assign(issuer.metadata, { jwks_uri: "http://login.example.com/keys" }),
  ],
  [
    "cannot be reached",
    ({ issuer }) => issuer.answers.set(issuer.urls.discovery, () => Promise.reject(new Error("refused"))),
  ],
];
for (const [name, break_] of faults)
  test(`tokens of an issuer that ${name} get 503, and it is left alone for 5 s`, async () => {
    const on = await stage();
    const text = await on.issuer.token();
    break_(on);
    for (let count = 0; count < 5; count += 1) {
      const [status, message] = await refusalOf(on, text);
      assert.is(status, 503, message);
    }
    assert.ok(on.issuer.fetched.length <= 2, on.issuer.fetched.join("\n"));
    on.issuer.answers.clear();
    on.issuer.metadata = { issuer: ISSUER, jwks_uri: on.issuer.urls.keys };
    await on.clock.pass(5000);
    await actorOf(on, text);
  });

test("an issuer that does not answer is given 5 s, also one that stops in the middle", async () => {
  const never = () => new Promise<Response>(() => undefined);
  const half = () =>
    new Response(new ReadableStream({ start: (c) => c.enqueue(new TextEncoder().encode('{"keys":[')) }));
  for (const answer of [never, half]) {
    const on = await stage();
    on.issuer.answers.set(on.issuer.urls.keys, answer);
    const refusal = refusalOf(on, await on.issuer.token());
    await on.clock.runWhenNextIs(5000);
    assert.is((await refusal)[0], 503);
  }
});

test("a new key of the issuer is used without a restart, and a removed one ends what its tokens have opened", async () => {
  const on = await stage({ keysMs: 0, cooldownMs: 0 });
  const former = await on.issuer.token();
  const actor = await actorOf(on, former);
  actor.opens?.();
  await on.issuer.addKey("second", "ES256");
  await actorOf(on, await on.issuer.token({ sub: "bob" }));
  assert.is(await on.tokens.actorOf(former), actor);
  on.issuer.removeKey("first");
  await on.clock.pass(600_000);
  for (let count = 0; count < 100 && !actor.ended.aborted; count += 1) await turns();
  assert.ok(actor.ended.aborted);
  assert.is((await refusalOf(on, former))[0], 401);
  on.tokens.close();
});

test("known keys go on while the issuer is away, until they are too old; what is open stays open", async () => {
  const on = await stage();
  await actorOf(on, await on.issuer.token());
  for (const url of Object.values(on.issuer.urls)) on.issuer.answers.set(url, () => Promise.reject(new Error("away")));
  await actorOf(on, await on.issuer.token({ sub: "bob" }));
  const unsure = await stage({ cooldownMs: 0 });
  await actorOf(unsure, await unsure.issuer.token());
  for (const url of Object.values(unsure.issuer.urls))
    unsure.issuer.answers.set(url, () => Promise.reject(new Error("away")));
  assert.is((await refusalOf(unsure, await unsure.issuer.token({}, { kid: "other" })))[0], 503);

  const old = await stage({ keysMs: 0 });
  const text = await old.issuer.token();
  const actor = await actorOf(old, text);
  actor.opens?.();
  for (const url of Object.values(old.issuer.urls))
    old.issuer.answers.set(url, () => Promise.reject(new Error("away")));
  await old.clock.pass(600_000);
  let status = 0;
  for (let count = 0; count < 100 && status === 0; count += 1) {
    await turns();
    [status] = await refusalOf(old, text);
  }
  assert.is(status, 503);
  assert.not.ok(actor.ended.aborted);
  old.issuer.answers.clear();
  await old.clock.pass(5000);
  assert.is(await old.tokens.actorOf(text), actor);
  for (const { tokens } of [on, old, unsure]) tokens.close();
});

test("tokens with unknown keys fetch the issuer's keys once in 30 s, however many there are", async () => {
  const on = await stage();
  await actorOf(on, await on.issuer.token());
  const before = on.issuer.fetched.length;
  const { privateKey } = await generateKeyPair("ES256");
  for (let count = 0; count < 50; count += 1) {
    const text = await on.issuer.token({}, { alg: "ES256", kid: `k${count}` }, privateKey);
    assert.is((await refusalOf(on, text))[0], 401);
  }
  assert.is(on.issuer.fetched.length, before);
});

test("what a token has asked for ends with a change of the settings that decide", async () => {
  const on = await stage();
  const { ref } = await actorOf(on, await on.issuer.token());
  assert.is(on.tokens.holds(ref), true);
  assert.is(on.tokens.holds("a1b2c3d4e5f6g7h8-0123456789abcdef0123456789abcdef"), undefined);
  for (const change of [
    { audience: "other" },
    { roleClaim: "roles" },
    { tenantClaim: undefined },
    { roles: [...oidc.roles].reverse() },
  ]) {
    const changed = createTokens({
      apiKey: "root",
      oidc: { ...oidc, ...change },
      clock: on.clock,
      log: silentLog,
      fetch: on.issuer.fetch,
    });
    assert.is(changed.holds(ref), false);
  }
});

test.run();
