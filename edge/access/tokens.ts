import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { Log } from "../../crds/log.ts";
import { createDerivedKey } from "../http/derived-key.ts";
import { HttpError } from "../http/http-error.ts";
import { type AccountConfig, createVerifyAccount, digestOfAccounts, isOfAccount } from "./accounts/verify-account.ts";
import type { Actor } from "./actor.ts";
import type { Fetch } from "./oidc/fetch-bounded.ts";
import { createIssuer } from "./oidc/issuer.ts";
import { createLogin, type Login } from "./oidc/login.ts";
import { digestOfOidc, type OidcConfig } from "./oidc/oidc-config.ts";
import { createVerifyToken, refusedToken } from "./oidc/verify-token.ts";
import { createTokenActors, type FindAddress, type TokenActors } from "./token-actors.ts";
import { holdsTokenRef } from "./token-ref.ts";

/** Bearer tokens that others issue. */
export interface Tokens {
  /**
   * Who has the token; undefined for a text that is no token.
   *
   * @param from finds the client's address
   * @throws HttpError 401 for an invalid token, 403 for one without rights, 503 while it cannot be checked
   */
  actorOf(text: string, from?: FindAddress): Actor | Promise<Actor> | undefined;
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
/** Each pod of an account has a token of its own. One that is idle takes 2 KiB, and no reviews. */
const MOST_ACCOUNTS = { most: 10_000, mostInAll: 10_000 };
/** The same for an account, which the API server may have deleted. */
const RECHECK_ACCOUNT_MS = 60_000;
/** A text that the API server does not accept is not sent there again for that long. */
const REFUSED_MS = 10_000;

/**
 * Accepts the tokens of an issuer, and of the cluster's ServiceAccounts.
 *
 * @param options.oidc @default no issuer
 * @param options.accounts @default no ServiceAccounts
 * @param options.apiKey TENANCY_API_KEY, from which the key comes that signs logins
 * @param options.steady for durations @default steadyClock
 */
export function createTokens({
  oidc,
  accounts,
  apiKey,
  ...options
}: {
  oidc?: OidcConfig | undefined;
  accounts?: { client: Pick<ClusterClient, "create" | "request">; config: AccountConfig } | undefined;
  apiKey: string;
  clock: Clock;
  steady?: Pick<Clock, "now">;
  log: Log;
  fetch?: Fetch;
  keysMs?: number;
  cooldownMs?: number;
}): Tokens {
  const { clock, steady = steadyClock } = options;
  const settings = [...(oidc ? [digestOfOidc(oidc)] : []), ...(accounts ? [digestOfAccounts(accounts.config)] : [])];
  const ofIssuer = oidc && createPeople(oidc);
  const ofAccounts =
    accounts &&
    createTokenActors({
      verify: createVerifyAccount({ ...accounts, clock, steady, log: options.log }),
      recheckMs: RECHECK_ACCOUNT_MS,
      refusedMs: REFUSED_MS,
      ...{ clock, steady },
      ...MOST_ACCOUNTS,
    });

  function createPeople(config: OidcConfig) {
    const { audience, login } = config;
    const issuer = createIssuer({ ...options, issuer: config.issuer });
    const signingKey = createDerivedKey(apiKey, "tenancy oidc login v1");
    const verify = audience === undefined ? undefined : createVerifyToken({ issuer, config, audience, clock });
    return {
      actors: verify && createTokenActors({ verify, recheckMs: RECHECK_MS, clock, steady }),
      login: login && createLogin({ ...options, issuer, config: { ...config, login }, signingKey }),
    };
  }

  function actorsFor(text: string): TokenActors | undefined {
    const isAccounts = accounts !== undefined && isOfAccount(text, accounts.config.audience);
    return isAccounts ? ofAccounts : ofIssuer?.actors;
  }

  return {
    actorOf(text, from) {
      if (!text.startsWith("eyJ")) return undefined;
      if (text.length > MAX_LENGTH)
        throw new HttpError(401, `the token is refused: it has more than ${MAX_LENGTH} characters`, refusedToken);
      if (!JWT.test(text)) return undefined;
      const actors = actorsFor(text);
      if (actors !== undefined) return actors.actorOf(text, from);
      if (accounts === undefined) return undefined;
      const { audience } = accounts.config;
      throw new HttpError(
        401,
        `the token is refused: it is no ServiceAccount's for the audience ${audience}`,
        refusedToken,
      );
    },
    holds: (ref) => holdsTokenRef(ref, { settings, now: clock.now() }),
    login: ofIssuer?.login,
    close() {
      ofIssuer?.actors?.close();
      ofAccounts?.close();
    },
  };
}
