import { createHmac, timingSafeEqual } from "node:crypto";
import * as client from "openid-client";
import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";
import { quote } from "../../../crds/quote.ts";
import { HttpError } from "../../http/http-error.ts";
import { createPlaces, networksOf } from "../places.ts";
import type { TokenGrant } from "../token-actors.ts";
import { type Fetch, fetchBounded } from "./fetch-bounded.ts";
import { type Issuer, IssuerError, type IssuerMetadata, issuerAway } from "./issuer.ts";
import { digestOfOidc, type OidcConfig, type OidcLoginConfig } from "./oidc-config.ts";
import { personOf, SKEW_SECONDS, verifyJwt } from "./verify-token.ts";

/** The login of a person at the provider: https://openid.net/specs/openid-connect-core-1_0.html#CodeFlowAuth. */
export interface Login {
  /** The provider's host, for people. */
  readonly provider: string;
  /** Differs where the settings differ that decide what a person may do. */
  readonly settings: string;
  /** Whether browsers reach the dashboard by HTTPS. */
  readonly isSecure: boolean;
  /**
   * Where to send a browser, and the `Set-Cookie` header by which it is recognized when it comes back.
   *
   * @param to the path on which the person continues
   * @throws HttpError 503 while the provider cannot be reached
   */
  start(to: string): Promise<{ location: string; cookie: string }>;
  /**
   * Who has come back, and the `Set-Cookie` header that ends the login.
   *
   * @param client.address undefined if it is not known
   * @throws HttpError 400 unless this browser has started the login and not tried to finish it before, 401 if the
   * provider refuses it, 403 if the person has no rights here, 503 while the provider cannot be reached
   */
  finish(
    request: Request,
    client: { readonly address: string | undefined; readonly clientGone?: AbortSignal | undefined },
  ): Promise<{ grant: TokenGrant; to: string; cookie: string }>;
}

/** How long a person may take at the provider. */
const LOGIN_MS = 600_000;
/** Each is a request to the provider that a stranger can cause. */
const FINISHING = {
  ...{ most: 64, mostOfGroup: 8, mostWaiting: 1024, waitMs: 5000 },
  busy: "many people are logging in at the moment; try again shortly",
};
/** Logins that were tried, until they expire by themselves. */
const MAX_USED = 10_000;
const TOKEN = /^([\w-]{1,3900})\.([\w-]{43})$/;

const started = v.pipe(
  v.string(),
  v.parseJson(),
  v.strictObject({ state: v.string(), nonce: v.string(), verifier: v.string(), to: v.string(), endsAt: v.number() }),
);
type Started = v.InferOutput<typeof started>;

/** @param options.signingKey of the cookie, the same on each replica */
export function createLogin(options: {
  issuer: Issuer;
  config: OidcConfig & { readonly login: OidcLoginConfig };
  signingKey: () => Promise<Buffer>;
  clock: Clock;
  log: Log;
  fetch?: Fetch;
}): Login {
  const { issuer, config, signingKey, clock, log, fetch = globalThis.fetch } = options;
  const { clientId, clientSecret, redirectUrl, scopes, sessionMs } = config.login;
  const isSecure = redirectUrl.startsWith("https:");
  // Another host of the same site cannot set a cookie with that prefix.
  const ownCookie = `${isSecure ? "__Host-" : ""}tenancy-login`;
  const attributes = isSecure ? "Path=/; Secure; HttpOnly; SameSite=Lax" : "Path=/; HttpOnly; SameSite=Lax";
  const settings = digestOfOidc(config);
  const finishing = createPlaces({ ...FINISHING, clock });
  /** `state` and end of logins that were tried; the oldest first. */
  const used = new Map<string, number>();

  async function sign(text: string): Promise<Buffer> {
    return createHmac("sha256", await signingKey())
      .update(`${settings} ${text}`)
      .digest();
  }

  async function configuration(): Promise<client.Configuration> {
    const metadata = await issuer.metadata().catch((error: unknown) => {
      throw issuerAway(error);
    });
    const found = new client.Configuration(
      metadata,
      clientId,
      { [client.clockTolerance]: SKEW_SECONDS },
      authentication(metadata, clientSecret),
    );
    found[client.customFetch] = (url, { method, headers, body }) =>
      fetchBounded(url, { method, headers, ...(body != null && { body: String(body) }) }, { fetch, clock }).catch(
        (cause: unknown) => {
          throw new IssuerError("the issuer of tokens cannot be used", { cause });
        },
      );
    // `fetchBounded` allows HTTP on this machine only.
    if (config.issuer.startsWith("http:")) client.allowInsecureRequests(found);
    return found;
  }

  async function readCookie({ headers }: Request): Promise<Started | undefined> {
    for (const pair of (headers.get("cookie") ?? "").split(";")) {
      const [, text, mac] = pair.trim().startsWith(`${ownCookie}=`)
        ? (TOKEN.exec(pair.trim().slice(ownCookie.length + 1)) ?? [])
        : [];
      if (text === undefined || mac === undefined) continue;
      if (!timingSafeEqual(await sign(text), Buffer.from(mac, "base64url"))) continue;
      const read = v.safeParse(started, Buffer.from(text, "base64url").toString("utf8"));
      if (read.success && read.output.endsAt > clock.now()) return read.output;
    }
    return undefined;
  }

  /** The verified claims of the person who has come back with a code. */
  async function exchange(search: string, { state, nonce, verifier }: Started) {
    const current = new URL(redirectUrl);
    current.search = search;
    const { id_token: idToken } = await client.authorizationCodeGrant(await configuration(), current, {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
    });
    // The package trusts TLS for the signature; the same checks as for bearer tokens are made too.
    return await verifyJwt(idToken ?? "", { issuer, config, audience: clientId, clock });
  }

  function isUsed(state: string): boolean {
    for (const [other, endsAt] of used) {
      if (used.size <= MAX_USED && endsAt > clock.now()) break;
      used.delete(other);
    }
    return used.has(state);
  }

  async function grantOf(search: string, login: Started): Promise<TokenGrant> {
    const { state, endsAt } = login;
    if (isUsed(state)) throw noLogin();
    used.set(state, endsAt);
    try {
      const claims = await exchange(search, login);
      return personOf(claims, { config, settings, endsAt: clock.now() + sessionMs });
    } catch (error) {
      const shown = failure(error);
      // The page may be loaded again once the provider is back.
      if (shown instanceof HttpError && shown.status === 503) used.delete(state);
      throw shown;
    }
  }

  function noLogin(): HttpError {
    return new HttpError(
      400,
      `this browser has no such login in progress: open ${new URL("/", redirectUrl).href} and sign in again`,
    );
  }

  function failure(error: unknown): unknown {
    if (error instanceof HttpError) return error;
    if (causesOf(error).some((one) => one instanceof IssuerError)) return issuerAway(error);
    const isAnswer = error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError;
    const problem = isAnswer
      ? `the provider answered ${quote(error.error)}`
      : "the provider's answer is not of this login";
    // Only messages: other fields may have what the browser or the provider has sent.
    const causes = isAnswer ? [] : causesOf(error).flatMap((one) => (one instanceof Error ? one.message : []));
    log.warn({ issuer: config.issuer, problem, causes }, "a login by OpenID has failed");
    return new HttpError(401, `the login has failed: ${problem}; sign in again`, { cause: error });
  }

  return {
    provider: new URL(config.issuer).host,
    settings,
    isSecure,
    async start(to) {
      const [state, nonce, verifier] = [client.randomState(), client.randomNonce(), client.randomPKCECodeVerifier()];
      const location = client.buildAuthorizationUrl(await configuration(), {
        redirect_uri: redirectUrl,
        scope: scopes,
        state,
        nonce,
        code_challenge: await client.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
      });
      const content: Started = { state, nonce, verifier, to, endsAt: clock.now() + LOGIN_MS };
      const text = Buffer.from(JSON.stringify(content)).toString("base64url");
      const token = `${text}.${(await sign(text)).toString("base64url")}`;
      return { location: location.href, cookie: `${ownCookie}=${token}; Max-Age=${LOGIN_MS / 1000}; ${attributes}` };
    },
    async finish(request, { address, clientGone }) {
      const { search, searchParams } = new URL(request.url);
      const known = await readCookie(request);
      if (known === undefined || searchParams.get("state") !== known.state || isUsed(known.state)) throw noLogin();
      const grant = await finishing.take(networksOf(address), () => grantOf(search, known), { clientGone });
      return { grant, to: known.to, cookie: `${ownCookie}=; Max-Age=0; ${attributes}` };
    },
  };
}

/** Without metadata, a secret is sent by HTTP Basic: https://openid.net/specs/openid-connect-discovery-1_0.html. */
function authentication(
  { token_endpoint_auth_methods_supported: methods = ["client_secret_basic"] }: IssuerMetadata,
  secret: string | undefined,
): client.ClientAuth {
  if (secret === undefined) return client.None();
  return methods.includes("client_secret_basic") ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret);
}

function causesOf(error: unknown): unknown[] {
  return error instanceof Error ? [error, ...causesOf(error.cause)] : [];
}
