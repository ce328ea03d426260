import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey } from "jose";
import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";
import { HttpError } from "../../http/http-error.ts";
import { type Fetch, fetchBounded } from "./fetch-bounded.ts";
import { isSafeUrl } from "./oidc-config.ts";

const endpoint = v.pipe(v.string(), v.check(isSafeUrl, "must be an https URL"));

/** What the edge uses of https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata. */
const metadataSchema = v.object({
  issuer: v.string(),
  jwks_uri: endpoint,
  authorization_endpoint: v.exactOptional(endpoint),
  token_endpoint: v.exactOptional(endpoint),
  token_endpoint_auth_methods_supported: v.exactOptional(v.array(v.string())),
  id_token_signing_alg_values_supported: v.exactOptional(v.array(v.string())),
  authorization_response_iss_parameter_supported: v.exactOptional(v.boolean()),
});
export type IssuerMetadata = v.InferOutput<typeof metadataSchema>;

/** https://www.rfc-editor.org/rfc/rfc7517#section-5; jose reads the keys. */
const keysSchema = v.object({ keys: v.array(v.looseObject({})) });

/** An issuer of tokens, as it describes itself. */
export interface Issuer {
  /** @throws IssuerError */
  metadata(): Promise<IssuerMetadata>;
  /** Finds the key of a token. @throws IssuerError; JOSEError if the issuer has no such key */
  readonly keyFor: JWTVerifyGetKey;
}

/** The issuer cannot be reached, or does not describe itself as it must. */
export class IssuerError extends Error {
  override readonly name = "IssuerError";
}

/** The answer while an {@link IssuerError} is the cause. */
export function issuerAway(cause: unknown): HttpError {
  const headers = { "retry-after": "5" };
  return new HttpError(503, "the issuer of tokens cannot be reached; try again shortly", { cause, headers });
}

/** How long a description of the issuer is used before it is read again. */
const METADATA_MS = 3_600_000;
/** Tokens arrive faster than a broken issuer should be asked. */
const PAUSE_MS = 5000;

/**
 * Reads an issuer's metadata and keys when they are first needed. Keys are read again after `keysMs`, and for a token
 * with an unknown key, but not more often than every `cooldownMs`.
 *
 * @param options.keysMs how long the keys are used while the issuer cannot be reached @default 10 minutes
 * @param options.cooldownMs @default 30000
 */
export function createIssuer(options: {
  issuer: string;
  fetch?: Fetch;
  clock: Clock;
  log: Log;
  keysMs?: number;
  cooldownMs?: number;
}): Issuer {
  const { issuer, fetch = globalThis.fetch, clock, log, keysMs = 600_000, cooldownMs = 30_000 } = options;
  const failures = new Map<string, { error: IssuerError; at: number }>();
  let known: { metadata: IssuerMetadata; at: number } | undefined;
  let reading: Promise<IssuerMetadata> | undefined;
  let keys: { uri: string; find: JWTVerifyGetKey } | undefined;

  /** Fetches a document, unless that has just failed. @throws IssuerError */
  async function read<T>(url: string, init: RequestInit, parse: (response: Response) => T | Promise<T>): Promise<T> {
    const failure = failures.get(url);
    if (failure !== undefined && clock.now() - failure.at < PAUSE_MS) throw failure.error;
    try {
      const response = await fetchBounded(url, init, { fetch, clock });
      if (response.status !== 200) throw new Error(`Cannot fetch ${url}: the server answered ${response.status}`);
      const parsed = await parse(response);
      failures.delete(url);
      return parsed;
    } catch (cause) {
      const error = new IssuerError("the issuer of tokens cannot be used", { cause });
      if (failure === undefined) log.warn({ issuer, error: cause }, "cannot read from the issuer of tokens");
      failures.set(url, { error, at: clock.now() });
      throw error;
    }
  }

  async function discover(): Promise<IssuerMetadata> {
    const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
    const metadata = await read(url, { headers: { accept: "application/json" } }, async (response) => {
      const found = v.parse(metadataSchema, await response.json());
      if (found.issuer !== issuer)
        throw new Error(`${url} is of another issuer; set TENANCY_OIDC_ISSUER to the one that it has`);
      const endpoints = [found.jwks_uri, found.authorization_endpoint ?? issuer, found.token_endpoint ?? issuer];
      // HTTP on this machine is only for an issuer of this machine: no other may choose what the edge asks there.
      if (issuer.startsWith("https:") && !endpoints.every((one) => one.startsWith("https:")))
        throw new Error(`${url} names an address without TLS`);
      return found;
    });
    known = { metadata, at: clock.now() };
    return metadata;
  }

  async function metadata(): Promise<IssuerMetadata> {
    if (known !== undefined && clock.now() - known.at < METADATA_MS) return known.metadata;
    reading ??= discover().finally(() => {
      reading = undefined;
    });
    try {
      return await reading;
    } catch (error) {
      if (known === undefined) throw error;
      return known.metadata;
    }
  }

  async function keysAt(uri: string): Promise<JWTVerifyGetKey> {
    if (keys?.uri === uri) return keys.find;
    const find = createRemoteJWKSet(new URL(uri), {
      cacheMaxAge: keysMs,
      cooldownDuration: cooldownMs,
      [customFetch]: (url, { headers }) =>
        read(url, { headers }, async (response) => {
          return Response.json(v.parse(keysSchema, await response.json()));
        }),
    });
    keys = { uri, find };
    return find;
  }

  return {
    metadata,
    async keyFor(header, token) {
      const find = await keysAt((await metadata()).jwks_uri);
      try {
        return await find(header, token);
      } catch (error) {
        const isOfToken = error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
        throw isOfToken || error instanceof IssuerError
          ? error
          : new IssuerError("the issuer of tokens has unusable keys", { cause: error });
      }
    },
  };
}
