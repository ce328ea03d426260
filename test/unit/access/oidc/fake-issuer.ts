import { type CryptoKey, exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from "jose";
import type { Fetch } from "../../../../edge/access/oidc/fetch-bounded.ts";
import type { OidcConfig } from "../../../../edge/access/oidc/oidc-config.ts";

export const ISSUER = "https://login.example.com/realm";
export const AUDIENCE = "tenancy-api";
const DISCOVERY = `${ISSUER}/.well-known/openid-configuration`;
const KEYS = "https://login.example.com/keys";

export const oidc: OidcConfig = {
  issuer: ISSUER,
  audience: AUDIENCE,
  roles: [
    { group: "ops", role: "admin" },
    { group: "apps", role: "platform" },
    { group: "customers", role: "tenant" },
    { group: "auditors", role: "reader", isOfAll: true },
    { group: "support", role: "reader" },
  ],
  roleClaim: "groups",
  tenantClaim: "tenants",
  login: undefined,
};

/** An issuer whose faults a test chooses; test/oidc has a real one. */
export interface FakeIssuer {
  readonly fetch: Fetch;
  /** Addresses that were fetched. */
  readonly fetched: string[];
  /** Replaces the answer of an address. */
  readonly answers: Map<string, (init: RequestInit) => Response | Promise<Response>>;
  readonly urls: { readonly discovery: string; readonly keys: string };
  metadata: Record<string, unknown>;
  /** Publishes a new key beside the others; tokens are signed with the newest. */
  addKey(kid: string, alg?: string): Promise<CryptoKey>;
  removeKey(kid: string): void;
  /** A token that is valid for an hour, but for what is given; undefined leaves a claim out. */
  token(claims?: object, header?: Partial<JWTHeaderParameters>, key?: CryptoKey | Uint8Array): Promise<string>;
}

/** @param now milliseconds since the epoch */
export function fakeIssuer(now: () => number): FakeIssuer {
  const keys = new Map<string, { jwk: object; privateKey: CryptoKey; alg: string }>();
  const answers: FakeIssuer["answers"] = new Map();
  const fetched: string[] = [];
  const issuer: FakeIssuer = {
    fetched,
    answers,
    urls: { discovery: DISCOVERY, keys: KEYS },
    metadata: { issuer: ISSUER, jwks_uri: KEYS },
    async fetch(url, init) {
      fetched.push(url);
      const answer = answers.get(url);
      if (answer !== undefined) return await answer(init);
      if (url === DISCOVERY) return Response.json(issuer.metadata);
      if (url === KEYS) return Response.json({ keys: [...keys.values()].map(({ jwk }) => jwk) });
      throw new Error(`fetched ${url}`);
    },
    async addKey(kid, alg = "RS256") {
      const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
      keys.set(kid, { jwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" }, privateKey, alg });
      return publicKey;
    },
    removeKey: (kid) => void keys.delete(kid),
    async token(claims = {}, header = {}, key) {
      const [kid, newest] = [...keys].at(-1) ?? [];
      const seconds = Math.floor(now() / 1000);
      const usual = { iss: ISSUER, aud: AUDIENCE, sub: "alice", iat: seconds, exp: seconds + 3600, groups: ["ops"] };
      const signing = key ?? newest?.privateKey;
      if (signing === undefined) throw new Error("the issuer has no key");
      return await new SignJWT({ ...usual, ...claims })
        .setProtectedHeader({ alg: newest?.alg ?? "RS256", ...(kid !== undefined && { kid }), ...header })
        .sign(signing);
    },
  };
  return issuer;
}
