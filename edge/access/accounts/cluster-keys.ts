import { compactVerify, createLocalJWKSet, errors, type JSONWebKeySet } from "jose";
import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Log } from "../../../crds/log.ts";

/** The public keys with which the API server signs tokens, as far as it publishes them. */
export interface ClusterKeys {
  /**
   * Whose signature a token has: `forged` if it names a key of the cluster that has not made it, `unknown` if the key is
   * not published, or the keys cannot be read. It says nothing of whether the token is still valid.
   */
  signerOf(text: string): Promise<"cluster" | "forged" | "unknown">;
}

/** https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery */
const PATH = "/openid/v1/jwks";
/** The API server refuses others with 406. */
const MEDIA_TYPE = "application/jwk-set+json";
const READ_MS = 2000;
/** How long the keys are used before they are read again, and how long a token with an unknown one causes no read. */
const [KEYS_MS, PAUSE_MS] = [600_000, 30_000];

/** https://www.rfc-editor.org/rfc/rfc7517#section-5; jose reads the keys. */
const keysSchema = v.object({ keys: v.array(v.looseObject({ kty: v.string() })) });

type FindKey = ReturnType<typeof createLocalJWKSet>;

/** Reads the keys when the first token arrives, and from then on beside the calls. */
export function createClusterKeys({
  client,
  steady,
  log,
}: {
  client: Pick<ClusterClient, "request">;
  steady: Pick<Clock, "now">;
  log: Log;
}): ClusterKeys {
  let find: FindKey | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;
  let hasFailed = false;

  function read(): Promise<void> {
    reading ??= client
      .request({ method: "GET", path: PATH, accept: MEDIA_TYPE, timeoutMs: READ_MS, verb: "get" })
      .then(({ body }) => {
        find = createLocalJWKSet(v.parse(keysSchema, JSON.parse(String(body))) as JSONWebKeySet);
        hasFailed = false;
      })
      .catch((error: unknown) => {
        // Not each account may read them, and not each cluster has them. Those that are known stay of use.
        if (!hasFailed) log.info({ path: PATH, error }, "cannot read the cluster's keys of tokens");
        hasFailed = true;
      })
      .finally(() => {
        readAt = steady.now();
        reading = undefined;
      });
    return reading;
  }

  return {
    async signerOf(text) {
      if (readAt === Number.NEGATIVE_INFINITY) await read();
      const signer = await signerBy(find, text);
      if (steady.now() - readAt >= (signer === "unknown" ? PAUSE_MS : KEYS_MS)) void read();
      return signer;
    },
  };
}

async function signerBy(find: FindKey | undefined, text: string): ReturnType<ClusterKeys["signerOf"]> {
  if (find === undefined) return "unknown";
  try {
    await compactVerify(text, find);
    return "cluster";
  } catch (error) {
    return error instanceof errors.JWSSignatureVerificationFailed ? "forged" : "unknown";
  }
}
