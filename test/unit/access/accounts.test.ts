// @runtimes bun node deno
// What takes a fault of the API server; test/cluster/rest/service-accounts.test.ts asks a real one.
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, SignJWT } from "jose";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { TransportResponse } from "../../../crds/client/transport.ts";
import { createTokens } from "../../../edge/access/tokens.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { manualClock, turns } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { fakeIssuer, oidc } from "./oidc/fake-issuer.ts";

const test = suite("tokens of ServiceAccounts");
const { privateKey, publicKey } = await generateKeyPair("ES256");
const NAME = "system:serviceaccount:apps:web";

interface Review {
  readonly kind: string;
  readonly spec: {
    readonly token?: string;
    readonly user?: string;
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
}

/**
 * @param answer of the API server to each review
 * @param keys that it publishes @default none
 */
function stage(
  answer: (kind: string, review: Review) => Promise<object>,
  keys: () => Promise<object> = () => Promise.reject(new ApiError("no", { status: 403, reason: "Forbidden" })),
) {
  const clock = manualClock();
  const issuer = fakeIssuer(clock.now);
  const asked: string[] = [];
  const create = (async ({ kind }: { kind: string }, { spec }: Review) => {
    asked.push(kind);
    return { metadata: { name: "" }, status: await answer(kind, { kind, spec }) };
  }) as unknown as ClusterClient["create"];
  const request: ClusterClient["request"] = async ({ path, accept }) => {
    assert.equal([path, accept], ["/openid/v1/jwks", "application/jwk-set+json"]);
    return { status: 200, body: Buffer.from(JSON.stringify(await keys())) } as TransportResponse;
  };
  const accounts = { client: { create, request }, config: { audience: "tenancy.dev", namespace: "tenancy" } };
  const tokens = createTokens({
    apiKey: "root",
    oidc,
    accounts,
    clock,
    steady: clock,
    log: silentLog,
    fetch: issuer.fetch,
  });
  const exp = Math.floor(clock.now() / 1000) + 3600;
  /** The API server would not take its signature; here it is not asked. */
  const tokenOf = (more: object = {}, { kid = "first", key = privateKey } = {}) =>
    new SignJWT({ iss: "https://kubernetes.default.svc", sub: NAME, aud: ["tenancy.dev"], exp, ...more })
      .setProtectedHeader({ alg: "ES256", kid })
      .sign(key);
  return { clock, issuer, tokens, asked, tokenOf };
}

const known = { authenticated: true, audiences: ["tenancy.dev"], user: { username: NAME, groups: [] } };
const all = async (kind: string) => (kind === "TokenReview" ? known : { allowed: true });

async function refusalOf(call: () => unknown): Promise<[number, string]> {
  try {
    await call();
  } catch (error) {
    if (error instanceof HttpError) return [error.status, error.message];
    throw error;
  }
  return [0, "accepted"];
}

test("a token is the issuer's or an account's by what it says, and never both", async () => {
  const { tokens, issuer, asked, tokenOf } = stage(all);
  await issuer.addKey("first");
  const person = await tokens.actorOf(await issuer.token());
  assert.is(person?.kind, "person");
  assert.equal(asked, []);
  const account = await tokens.actorOf(await tokenOf());
  assert.equal(
    [account?.kind, account?.id, account?.role, account?.tenants],
    ["serviceAccount", NAME, "platform", undefined],
  );
  assert.is(tokens.holds(account?.ref ?? ""), true);
  // A token that says it is an account's is checked by the API server alone.
  const named = await issuer.token({ sub: NAME, aud: ["tenancy-api", "tenancy.dev"] });
  assert.is((await tokens.actorOf(named))?.kind, "serviceAccount");
  for (const more of [{ aud: "other" }, { aud: undefined }, { sub: "alice" }, { sub: undefined }]) {
    const before = asked.length;
    assert.is((await refusalOf(async () => tokens.actorOf(await tokenOf(more))))[0], 401);
    assert.is(asked.length, before, "it is not sent to the API server");
  }
  tokens.close();
});

test("what the API server does not confirm for this audience, or as an account, is refused", async () => {
  for (const status of [
    {},
    { authenticated: false },
    { ...known, audiences: undefined },
    { ...known, audiences: ["https://kubernetes.default.svc"] },
    { ...known, user: { username: "admin" } },
    { ...known, user: undefined },
  ]) {
    const { tokens, tokenOf } = stage(async (kind) => (kind === "TokenReview" ? status : { allowed: true }));
    const text = await tokenOf();
    assert.is((await refusalOf(() => tokens.actorOf(text)))[0], 401, JSON.stringify(status));
  }
});

test("an edge that may not ask, or is not answered, says so with 503", async () => {
  const forbidden = new ApiError("no", { status: 403, reason: "Forbidden" });
  for (const [error, words] of [
    [forbidden, /manifests\/components\/service-accounts/],
    [new Error("refused"), /try again shortly/],
  ] as const) {
    const { tokens, tokenOf } = stage(() => Promise.reject(error));
    const text = await tokenOf();
    const [status, message] = await refusalOf(() => tokens.actorOf(text));
    assert.is(status, 503);
    assert.match(message, words);
  }
});

test("strangers' tokens wait for their turn by network, which does not touch another's or a known one", async () => {
  let isHanging = false;
  const never = new Promise<object>(() => undefined);
  const { tokens, tokenOf, asked, clock } = stage((kind) => (isHanging ? never : all(kind)));
  const mine = await tokenOf();
  const actor = await tokens.actorOf(mine);
  actor?.opens?.();
  isHanging = true;
  const texts = await Promise.all(Array.from({ length: 21 }, (_, jti) => tokenOf({ jti: String(jti) })));
  const before = asked.length;
  const [other = "", ...forged] = texts;
  const refusals = forged.map((text, host) => refusalOf(() => tokens.actorOf(text, () => `192.0.2.${host}`)));
  await turns();
  assert.is(asked.length, before + 8);
  void tokens.actorOf(other, () => "198.51.100.1");
  await turns();
  assert.is(asked.length, before + 9);
  await clock.pass(5000);
  assert.equal(
    (await Promise.all(refusals.slice(8))).map(([status]) => status),
    Array(12).fill(503),
  );
  assert.is(tokens.actorOf(mine), actor);
  // Its own check needs no place.
  isHanging = false;
  await clock.pass(60_000);
  assert.ok(asked.length > before + 10);
  assert.not.ok(actor?.ended.aborted);
});

test("where the cluster publishes its keys, forged tokens cost no review, and signed ones do not wait for strangers", async () => {
  const jwk = { ...(await exportJWK(publicKey)), kid: "first" };
  const { privateKey: other, publicKey: otherPublic } = await generateKeyPair("ES256");
  let published: object[] = [jwk];
  let read = 0;
  let isHanging = false;
  const never = new Promise<object>(() => undefined);
  const { tokens, tokenOf, asked, clock } = stage(
    (kind, { spec: { token = "" } }) => {
      return isHanging && decodeProtectedHeader(token).kid !== "first" && kind === "TokenReview" ? never : all(kind);
    },
    async () => {
      read += 1;
      return { keys: published };
    },
  );
  for (const forged of [await tokenOf({}, { key: other }), `${(await tokenOf()).slice(0, -8)}AAAAAAAA`]) {
    const [status, message] = await refusalOf(() => tokens.actorOf(forged));
    assert.is(status, 401);
    assert.match(message, "the cluster has not signed it");
  }
  assert.equal([asked, read], [[], 1]);
  // Keys that are not published can be the cluster's.
  const unpublished = await tokenOf({}, { kid: "second", key: other });
  assert.is((await tokens.actorOf(unpublished))?.id, NAME);
  isHanging = true;
  for (let jti = 0; jti < 100; jti += 1) {
    const text = await tokenOf({ jti: String(jti) }, { kid: "third", key: other });
    Promise.resolve(tokens.actorOf(text, () => `192.0.${jti}.1`)).catch(() => undefined);
  }
  for (let jti = 0; jti < 20; jti += 1)
    assert.is((await tokens.actorOf(await tokenOf({ jti: `web-${jti}` }), () => "192.0.2.1"))?.id, NAME);
  assert.is(read, 1);
  // A new key is read beside the calls, at most every 30 s.
  published = [jwk, { ...(await exportJWK(otherPublic)), kid: "third" }];
  await clock.pass(30_000);
  for (let jti = 100; jti < 110; jti += 1)
    Promise.resolve(tokens.actorOf(await tokenOf({ jti: String(jti) }, { kid: "third", key: other }))).catch(() => 0);
  await turns();
  assert.is(read, 2);
  const forged = await tokenOf({ jti: "last" }, { kid: "third" });
  assert.match((await refusalOf(() => tokens.actorOf(forged)))[1], "the cluster has not signed it");
  tokens.close();
  await clock.pass(5000);
});

test("keys that cannot be read, or are none, refuse no token", async () => {
  for (const keys of [
    () => Promise.reject(new Error("away")),
    async () => [],
    async () => ({ keys: [{ kty: "EC", kid: "first" }, {}] }),
  ]) {
    const { tokens, tokenOf } = stage(all, keys as () => Promise<object>);
    assert.is((await tokens.actorOf(await tokenOf()))?.id, NAME);
    tokens.close();
  }
});

test("a text that was refused is not sent to the API server again for 10 s", async () => {
  const { tokens, tokenOf, asked, clock } = stage(async () => ({ authenticated: false }));
  const text = await tokenOf();
  for (let at = 0; at < 10; at += 1) assert.is((await refusalOf(() => tokens.actorOf(text)))[0], 401);
  assert.is(asked.length, 1);
  await clock.pass(10_000);
  assert.is((await refusalOf(() => tokens.actorOf(text)))[0], 401);
  assert.is(asked.length, 2);
  for (let at = 0; at < 10_001; at += 1) await refusalOf(() => tokens.actorOf(`${text}${at}`));
  await refusalOf(() => tokens.actorOf(text));
  assert.is(asked.length, 2 + 10_001 + 1, "the oldest are forgotten");
  const unsure = stage(() => Promise.reject(new Error("away")));
  const other = await unsure.tokenOf();
  for (let at = 0; at < 2; at += 1) await refusalOf(() => unsure.tokens.actorOf(other));
  assert.is(unsure.asked.length, 2);
});

test("what no API server can have made, or has ended, costs no review", async () => {
  const { tokens, tokenOf, asked, clock } = stage(all);
  const now = Math.floor(clock.now() / 1000);
  const part = (content: object) => Buffer.from(JSON.stringify(content)).toString("base64url");
  const [, payload = "", signature = ""] = (await tokenOf()).split(".");
  for (const [text, problem] of [
    [await tokenOf({ exp: now }), /it has ended/],
    [await tokenOf({ exp: undefined }), /it has no end/],
    [await tokenOf({ nbf: now + 301 }), /it is not valid yet/],
    [await tokenOf({ iss: undefined }), /none that an API server makes/],
    [`${part({ alg: "none" })}.${payload}.${signature}`, /none that an API server makes/],
    [`${part({ alg: "HS256" })}.${payload}.${signature}`, /none that an API server makes/],
    [`${part({ alg: ["ES256"], kid: 5 })}.${part({ ...decodeJwt(await tokenOf()), nbf: "x" })}.x`, /none that an API/],
    [`eyJh.${payload}.${signature}`, /it is no JWT/],
  ] as const) {
    const [status, message] = await refusalOf(() => tokens.actorOf(text));
    assert.is(status, 401, text);
    assert.match(message, problem);
  }
  assert.equal(asked, []);
  assert.is((await tokens.actorOf(await tokenOf({ nbf: now + 299 })))?.id, NAME);
  tokens.close();
});

const POD = "authentication.kubernetes.io/pod-name";

/** Answers as an API server whose authorizer may look at the pod of a token. */
function withPods(allows: (pod: string | undefined) => boolean, allowsToken = (_: string) => true) {
  return stage(async (kind, { spec: { token = "", extra } }) => {
    if (kind !== "TokenReview") return { allowed: allows(extra?.[POD]?.[0]) };
    const { jti: pod } = decodeJwt(token);
    const credential = { "authentication.kubernetes.io/credential-id": [`JTI=${pod}`] };
    return allowsToken(String(pod))
      ? { ...known, user: { ...known.user, extra: { [POD]: [pod], ...credential, "example.com/zone": ["a"] } } }
      : { authenticated: false };
  });
}

test("the tokens of one account share its rights, and each has its own TokenReview", async () => {
  let isAllowed = true;
  const { tokens, tokenOf, asked, clock } = withPods(() => isAllowed);
  const count = (kind: string) => asked.filter((one) => one === kind).length;
  const texts = await Promise.all(Array.from({ length: 200 }, (_, at) => tokenOf({ jti: `web-${at}` })));
  const actors = [];
  for (const text of texts) actors.push(await tokens.actorOf(text));
  for (const actor of actors) actor?.opens?.();
  for (let minute = 1; minute < 10; minute += 1) {
    asked.length = 0;
    await clock.pass(60_000);
    assert.equal([count("TokenReview"), count("SubjectAccessReview")], [200, 20]);
  }
  isAllowed = false;
  await clock.pass(60_000);
  assert.ok(actors.every((actor) => actor?.ended.aborted));
  assert.is((await refusalOf(() => tokens.actorOf(texts[0] ?? "")))[0], 403);
  tokens.close();
});

test("an authorizer that looks at the pod of a token is asked about that pod", async () => {
  const denied = new Set(["web-0"]);
  const { tokens, tokenOf, clock, asked } = withPods((pod) => pod !== undefined && !denied.has(pod));
  assert.is((await refusalOf(async () => tokens.actorOf(await tokenOf({ jti: "web-0" }))))[0], 403);
  const actor = await tokens.actorOf(await tokenOf({ jti: "web-1" }));
  actor?.opens?.();
  // Its rights are not the account's, so they are asked for each time.
  denied.add("web-1");
  await clock.pass(60_000);
  assert.ok(actor?.ended.aborted);

  const later = withPods((pod) => pod === undefined || !denied.has(pod));
  const second = await later.tokens.actorOf(await later.tokenOf({ jti: "web-2" }));
  second?.opens?.();
  denied.add("web-2");
  await later.clock.pass(600_000);
  assert.ok(second?.ended.aborted);
  assert.ok(asked.length > 0);
  for (const one of [tokens, later.tokens]) one.close();
});

test("a token whose pod was deleted ends alone", async () => {
  const gone = new Set<string>();
  const { tokens, tokenOf, clock } = withPods(
    () => true,
    (pod) => !gone.has(pod),
  );
  const actors = [];
  for (const jti of ["web-1", "web-2"]) actors.push(await tokens.actorOf(await tokenOf({ jti })));
  for (const actor of actors) actor?.opens?.();
  gone.add("web-1");
  await clock.pass(60_000);
  assert.equal(
    actors.map((actor) => actor?.ended.aborted),
    [true, false],
  );
  tokens.close();
});

test("rights that could not be asked for are asked for again, and end nothing", async () => {
  let isAway = false;
  const { tokens, tokenOf, clock } = stage((kind) =>
    isAway && kind !== "TokenReview" ? Promise.reject(new Error("away")) : all(kind),
  );
  const text = await tokenOf();
  const actor = await tokens.actorOf(text);
  actor?.opens?.();
  isAway = true;
  await clock.pass(60_000);
  assert.is((await refusalOf(() => tokens.actorOf(text)))[0], 503);
  isAway = false;
  assert.is(await tokens.actorOf(text), actor);
  assert.not.ok(actor?.ended.aborted);
  tokens.close();
});

test.run();
