import type { Clock } from "../../crds/client/clock.ts";
import type { Log } from "../../crds/log.ts";
import { createDerivedKey } from "../http/derived-key.ts";
import { HttpError } from "../http/http-error.ts";
import type { Actor } from "./actor.ts";
import type { Fetch } from "./oidc/fetch-bounded.ts";
import { createIssuer } from "./oidc/issuer.ts";
import { createLogin, type Login } from "./oidc/login.ts";
import { digestOfOidc, type OidcConfig } from "./oidc/oidc-config.ts";
import { createVerifyToken, refusedToken } from "./oidc/verify-token.ts";
import { createTokenActors } from "./token-actors.ts";
import { holdsTokenRef } from "./token-ref.ts";

/** Bearer tokens that others issue. */
export interface Tokens {
  /**
   * Who has the token; undefined for a text that is no token.
   *
   * @throws HttpError 401 for an invalid token, 403 for one without rights, 503 while it cannot be checked
   */
  actorOf(text: string): Actor | Promise<Actor> | undefined;
  /** Whether what the actor with that `ref` has asked for is still valid; undefined for the `ref` of a key. */
  holds(ref: string): boolean | undefined;
  /** Undefined where people log in with a key only. */
  readonly login: Login | undefined;
  close(): void;
}

/** Header, payload and signature; a header of JSON begins like that. */
const JWT = /^eyJ[\w-]+\.[\w-]+\.[\w-]+$/;
const MAX_LENGTH = 8192;
/** A token is verified again so often: a signing key that the issuer removes ends its tokens. */
const RECHECK_MS = 600_000;

/**
 * Accepts the tokens of an issuer.
 *
 * @param options.apiKey TENANCY_API_KEY, from which the key comes that signs logins
 */
export function createTokens({
  oidc,
  apiKey,
  ...options
}: {
  oidc: OidcConfig;
  apiKey: string;
  clock: Clock;
  log: Log;
  fetch?: Fetch;
  keysMs?: number;
  cooldownMs?: number;
}): Tokens {
  const { clock } = options;
  const { audience, login } = oidc;
  const issuer = createIssuer({ ...options, issuer: oidc.issuer });
  const people =
    audience === undefined
      ? undefined
      : createTokenActors({
          verify: createVerifyToken({ issuer, config: oidc, audience, clock }),
          recheckMs: RECHECK_MS,
          clock,
        });
  const settings = [digestOfOidc(oidc)];
  const signingKey = createDerivedKey(apiKey, "tenancy oidc login v1");
  return {
    actorOf(text) {
      if (people === undefined || !text.startsWith("eyJ")) return undefined;
      if (text.length > MAX_LENGTH)
        throw new HttpError(401, `the token is refused: it has more than ${MAX_LENGTH} characters`, refusedToken);
      return JWT.test(text) ? people.actorOf(text) : undefined;
    },
    holds: (ref) => holdsTokenRef(ref, { settings, now: clock.now() }),
    login: login && createLogin({ ...options, issuer, config: { ...oidc, login }, signingKey }),
    close: () => people?.close(),
  };
}
