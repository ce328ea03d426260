import { hash } from "node:crypto";
import { decodeJwt, decodeProtectedHeader, type JWTPayload } from "jose";
import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import type { Log } from "../../../crds/log.ts";
import { defineResource, type Resource } from "../../../crds/resource.ts";
import { HttpError } from "../../http/http-error.ts";
import { createPlaces, networksOf } from "../places.ts";
import type { TokenGrant, VerifyToken } from "../token-actors.ts";
import { tokenRef } from "../token-ref.ts";
import { missingRight } from "./account-rights.ts";
import { REVIEW_MS, reviewed } from "./ask-cluster.ts";
import { createClusterKeys } from "./cluster-keys.ts";
import { createRightsOfUser, type DecidedRights, type ReviewedUser } from "./rights-of-user.ts";

/** Whose tokens are accepted: those of ServiceAccounts of the cluster, issued for `audience`. */
export interface AccountConfig {
  readonly audience: string;
  /** Where the rights are looked up that decide. */
  readonly namespace: string;
}

/** https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/ */
interface TokenReview extends KubernetesObject {
  readonly spec: { readonly token: string; readonly audiences: readonly string[] };
  readonly status?: {
    readonly authenticated?: boolean;
    readonly audiences?: readonly string[];
    readonly user?: ReviewedUser;
  };
}

const tokenReviews: Resource<TokenReview> = defineResource({
  ...{ group: "authentication.k8s.io", version: "v1", plural: "tokenreviews", kind: "TokenReview" },
  namespaced: false,
});
const USER = "system:serviceaccount:";
/** Each costs the API server reviews: texts of strangers that look like tokens, and new tokens of accounts. */
const UNKNOWN = {
  ...{ most: 16, mostOfGroup: 8, mostWaiting: 1024, waitMs: 5000 },
  busy: "many tokens are checked at the moment; try again shortly",
};
/** Signatures by a private key, as the API server makes them. */
const ALGORITHM = /^(?:(?:RS|PS|ES)(?:256|384|512)|EdDSA)$/;
/** How far the clock of the API server may be ahead. */
const AHEAD_MS = 300_000;

/** Differs where the settings differ that decide what a token of an account allows. */
export function digestOfAccounts({ audience, namespace }: AccountConfig): string {
  return hash("sha256", JSON.stringify(["accounts", audience, namespace])).slice(0, 16);
}

/** Whether a JWT says that it is a ServiceAccount's and for that audience; nothing about it is verified. */
export function isOfAccount(text: string, audience: string): boolean {
  try {
    const { sub, aud } = decodeJwt(text);
    return sub?.startsWith(USER) === true && [aud].flat().includes(audience);
  } catch {
    return false;
  }
}

/**
 * Returns a function that asks the API server whose a token is, and what its account may do.
 *
 * @throws HttpError 401 for an invalid token, 403 for an account without the rights, 503 while the API server cannot
 * say it, or for an unknown token that has waited for 5 s because many others are checked
 */
export function createVerifyAccount({
  client,
  config,
  clock,
  steady,
  log,
}: {
  client: Pick<ClusterClient, "create" | "request">;
  config: AccountConfig;
  clock: Clock;
  steady: Pick<Clock, "now">;
  log: Log;
}): VerifyToken {
  const { audience, namespace } = config;
  const settings = digestOfAccounts(config);
  const rightsOf = createRightsOfUser({ client, namespace, steady });
  const decided = new WeakMap<TokenGrant, DecidedRights>();
  const keys = createClusterKeys({ client, steady, log });
  const unknown = { signed: createPlaces({ ...UNKNOWN, clock }), unsigned: createPlaces({ ...UNKNOWN, clock }) };

  async function review(token: string): Promise<ReviewedUser> {
    const spec = { token, audiences: [audience] };
    const { status } = await reviewed(
      client.create(tokenReviews, { metadata: { name: "" }, spec }, { timeoutMs: REVIEW_MS }),
    );
    const isOurs = status?.audiences?.includes(audience) === true;
    if (status?.authenticated !== true || !isOurs || status.user?.username?.startsWith(USER) !== true)
      throw refused("the cluster does not know it: it has ended, or its account or pod was deleted");
    return status.user;
  }

  async function verified(text: string, endsAt: number, known?: TokenGrant): Promise<TokenGrant> {
    const user = await review(text);
    const { username: id = "" } = user;
    const found = await rightsOf(user, known && decided.get(known));
    const { rights } = found;
    if ("verb" in rights) throw new HttpError(403, missingRight(rights, { user: id, namespace }));
    const account = { kind: "serviceAccount", id, ...rights } as const;
    const grant = { ...account, endsAt, ref: tokenRef(account, { settings, endsAt }) };
    decided.set(grant, found);
    return grant;
  }

  return async (text, { known, from }) => {
    const { endsAt, sub } = readToken(text, clock.now());
    if (known !== undefined) return await verified(text, endsAt, known);
    // Now: a runtime forgets a client that leaves.
    const networks = networksOf(from?.());
    const signer = await keys.signerOf(text);
    if (signer === "forged") throw refused("the cluster has not signed it");
    if (signer === "unknown") return await unknown.unsigned.take(networks, () => verified(text, endsAt));
    return await unknown.signed.take([sub.slice(0, sub.lastIndexOf(":")), sub], () => verified(text, endsAt));
  };
}

/**
 * The account, and the end in milliseconds since the epoch, as a token says itself.
 *
 * @throws HttpError 401 for one that the API server cannot accept, before it costs a review
 */
function readToken(text: string, now: number): { endsAt: number; sub: string } {
  const { alg, sub = "", exp, nbf = 0, iss } = readUnverified(text);
  if (!ALGORITHM.test(String(alg)) || typeof iss !== "string" || typeof nbf !== "number")
    throw refused("it is none that an API server makes");
  if (typeof exp !== "number")
    throw refused("it has no end: use a token of kubectl create token, or of a projected volume");
  if (exp * 1000 <= now) throw refused("it has ended");
  if (nbf * 1000 > now + AHEAD_MS) throw refused("it is not valid yet; do the clocks of edge and cluster differ?");
  return { endsAt: exp * 1000, sub };
}

function readUnverified(text: string): JWTPayload & { alg?: unknown } {
  try {
    return { ...decodeJwt(text), alg: decodeProtectedHeader(text).alg };
  } catch (cause) {
    throw refused("it is no JWT", cause);
  }
}

function refused(problem: string, cause?: unknown): HttpError {
  return new HttpError(401, `the token is refused: ${problem}`, {
    cause,
    headers: { "www-authenticate": 'Bearer realm="tenancy", error="invalid_token"' },
  });
}
