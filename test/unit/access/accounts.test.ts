// @runtimes bun node deno
// What takes a fault of the API server; test/cluster/rest/service-accounts.test.ts asks a real one.
import { SignJWT } from "jose";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTokens } from "../../../edge/access/tokens.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { fakeIssuer, oidc } from "./oidc/fake-issuer.ts";

const test = suite("tokens of ServiceAccounts");
const NAME = "system:serviceaccount:apps:web";

/** @param answer of the API server to each review, by its kind */
function stage(answer: (kind: string) => Promise<object>) {
  const clock = manualClock();
  const issuer = fakeIssuer(clock.now);
  const asked: string[] = [];
  const create = (async ({ kind }: { kind: string }) => {
    asked.push(kind);
    return { metadata: { name: "" }, status: await answer(kind) };
  }) as unknown as ClusterClient["create"];
  const accounts = { client: { create }, config: { audience: "tenancy.dev", namespace: "tenancy" } };
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
  const tokenOf = (more: object = {}) =>
    new SignJWT({ sub: NAME, aud: ["tenancy.dev"], exp, ...more })
      .setProtectedHeader({ alg: "HS256" })
      .sign(new Uint8Array(32));
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
  const { tokens, tokenOf } = stage(all);
  const endless = await tokenOf({ exp: undefined });
  assert.is((await refusalOf(() => tokens.actorOf(endless)))[0], 401);
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

test("strangers' tokens are checked 16 at a time, which does not touch a known one", async () => {
  let isHanging = false;
  const never = new Promise<object>(() => undefined);
  const { tokens, tokenOf, asked, clock } = stage((kind) => (isHanging ? never : all(kind)));
  const mine = await tokenOf();
  const actor = await tokens.actorOf(mine);
  actor?.opens?.();
  isHanging = true;
  const texts = await Promise.all(Array.from({ length: 20 }, (_, jti) => tokenOf({ jti: String(jti) })));
  const before = asked.length;
  const last = texts.slice(16);
  for (const text of texts.slice(0, 16)) void tokens.actorOf(text);
  for (const text of last) assert.is((await refusalOf(() => tokens.actorOf(text)))[0], 503);
  assert.is(asked.length, before + 16);
  assert.is(tokens.actorOf(mine), actor);
  // Its own check is not one of the 16.
  isHanging = false;
  await clock.pass(60_000);
  assert.ok(asked.length > before + 17);
  assert.not.ok(actor?.ended.aborted);
});

test.run();
