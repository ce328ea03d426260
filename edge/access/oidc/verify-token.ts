import { errors, type JWTPayload, jwtVerify } from "jose";
import type { Clock } from "../../../crds/client/clock.ts";
import { HttpError } from "../../http/http-error.ts";
import type { TokenGrant } from "../token-actors.ts";
import { tokenRef } from "../token-ref.ts";
import { rightsOf } from "./claims.ts";
import { type Issuer, IssuerError, issuerAway } from "./issuer.ts";
import { digestOfOidc, type OidcConfig } from "./oidc-config.ts";

/** How far the issuer's clock may be off. */
export const SKEW_SECONDS = 60;
/** Signatures with a key that only the issuer has. A public key must never be taken for a shared one, so no HS256. */
const ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA", "Ed25519"];
/** https://www.rfc-editor.org/rfc/rfc9068 and plain JWTs; no logout, DPoP or refresh token. */
const TYPES = new Set([undefined, "jwt", "at+jwt", "application/at+jwt"]);
/** https://openid.net/specs/openid-connect-core-1_0.html#IDToken */
const SUBJECT = /^[ -~]{1,255}$/;

export const refusedToken = {
  headers: { "www-authenticate": 'Bearer realm="tenancy", error="invalid_token"' },
} as const;

/**
 * Checks a JWT of the issuer: signature, issuer, audience, times, and that it is not bound to a key of its client.
 *
 * @throws HttpError 401 if it is invalid, 503 while the issuer cannot be reached
 */
export async function verifyJwt(
  text: string,
  { issuer, config, audience, clock }: { issuer: Issuer; config: OidcConfig; audience: string; clock: Clock },
): Promise<JWTPayload & { sub: string; exp: number }> {
  try {
    const { payload, protectedHeader } = await jwtVerify(text, issuer.keyFor, {
      algorithms: ALGORITHMS,
      issuer: config.issuer,
      audience,
      clockTolerance: SKEW_SECONDS,
      currentDate: new Date(clock.now()),
      requiredClaims: ["sub", "exp"],
    });
    const { sub = "", exp = 0 } = payload;
    if (!TYPES.has(protectedHeader.typ?.toLowerCase())) throw refused("its typ is not that of an access token");
    if (payload.cnf !== undefined) throw refused("it is bound to a key of its client, which is not checked here");
    if (!SUBJECT.test(sub)) throw refused("its sub must be 1 to 255 printable ASCII characters");
    return { ...payload, sub, exp };
  } catch (error) {
    if (error instanceof HttpError) throw error;
    if (error instanceof IssuerError) throw issuerAway(error);
    // jose's messages name claims and never repeat a value.
    if (error instanceof errors.JOSEError) throw refused(error.message, error);
    throw error;
  }
}

/**
 * Returns a function that finds out what a bearer token of the issuer gives.
 *
 * @throws HttpError as {@link verifyJwt}; 403 if the token has no role
 */
export function createVerifyToken(options: {
  issuer: Issuer;
  config: OidcConfig;
  audience: string;
  clock: Clock;
}): (text: string) => Promise<TokenGrant> {
  const { config } = options;
  const settings = digestOfOidc(config);
  return async (text) => {
    const claims = await verifyJwt(text, options);
    return personOf(claims, { config, settings, endsAt: (claims.exp + SKEW_SECONDS) * 1000 });
  };
}

/** What verified claims give until `endsAt`. @throws HttpError 403 if they give nothing */
export function personOf(
  claims: JWTPayload & { sub: string },
  { config, settings, endsAt }: { config: OidcConfig; settings: string; endsAt: number },
): TokenGrant {
  const rights = rightsOf(claims, config);
  if (typeof rights === "string") throw new HttpError(403, rights);
  const person = { kind: "person", id: claims.sub, ...rights } as const;
  return { ...person, endsAt, ref: tokenRef(person, { settings, endsAt }) };
}

function refused(problem: string, cause?: unknown): HttpError {
  return new HttpError(401, `the token is refused: ${problem}`, { ...refusedToken, cause });
}
