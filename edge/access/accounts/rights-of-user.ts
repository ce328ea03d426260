import { hash } from "node:crypto";
import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { defineResource, type Resource } from "../../../crds/resource.ts";
import { type AccountRights, type Right, rightsOfAccount } from "./account-rights.ts";
import { REVIEW_MS, reviewed } from "./ask-cluster.ts";

/** The user of a TokenReview, which a SubjectAccessReview takes. */
export interface ReviewedUser {
  readonly username?: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/subject-access-review-v1/ */
interface SubjectAccessReview extends KubernetesObject {
  readonly spec: object;
  readonly status?: { readonly allowed?: boolean };
}

const accessReviews: Resource<SubjectAccessReview> = defineResource({
  ...{ group: "authorization.k8s.io", version: "v1", plural: "subjectaccessreviews", kind: "SubjectAccessReview" },
  namespaced: false,
});

/** What the cluster answered about a token's user. */
export interface DecidedRights {
  readonly rights: AccountRights | Right;
  /** Digest of the account and its rights, if the token's own user has the same. */
  readonly asAccount: string | undefined;
  /** By the steady clock. */
  readonly decidedAt: number;
}

/**
 * What distinguishes the tokens of one account:
 * https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#additional-metadata-in-pod-bound-tokens
 */
const OF_ONE_TOKEN = new Set(
  ["credential-id", "pod-name", "pod-uid", "node-name", "node-uid"].map(
    (name) => `authentication.kubernetes.io/${name}`,
  ),
);
/** How old the rights of an account may be at the check of a token. */
const ACCOUNT_MS = 10_000;
/** How long the rights of a token's own user count while those of its account stay the same. */
const OWN_MS = 600_000;

/**
 * Returns a function that asks the API server what the user of a token may do: 10 to 21 SubjectAccessReviews. A later
 * check asks the same about the account only, which all its tokens share for 10 s
 * (docs/decisions/keys.md#serviceaccounts-are-asked-about).
 */
export function createRightsOfUser({
  client,
  namespace,
  steady,
}: {
  client: Pick<ClusterClient, "create">;
  namespace: string;
  steady: Pick<Clock, "now">;
}): (user: ReviewedUser, before: DecidedRights | undefined) => Promise<DecidedRights> {
  /** By account, oldest first. */
  const accounts = new Map<string, { readonly rights: Promise<AccountRights | Right>; readonly askedAt: number }>();

  async function may(user: ReviewedUser, { verb, resource }: Right): Promise<boolean> {
    const { username, uid, groups, extra } = user;
    const resourceAttributes = { namespace, group: "tenancy.dev", verb, resource };
    const spec = { user: username, uid, groups, extra, resourceAttributes };
    const { status } = await reviewed(
      client.create(accessReviews, { metadata: { name: "" }, spec }, { timeoutMs: REVIEW_MS }),
    );
    return status?.allowed === true;
  }

  function ask(user: ReviewedUser): Promise<AccountRights | Right> {
    return rightsOfAccount((right) => may(user, right));
  }

  async function rightsOfSharedAccount(account: ReviewedUser): Promise<{ key: string; rights: AccountRights | Right }> {
    const key = JSON.stringify(account);
    for (const [other, { askedAt }] of accounts) {
      if (steady.now() - askedAt < ACCOUNT_MS) break;
      accounts.delete(other);
    }
    let asked = accounts.get(key);
    if (asked === undefined) {
      asked = { rights: ask(account), askedAt: steady.now() };
      accounts.set(key, asked);
    }
    try {
      return { key, rights: await asked.rights };
    } catch (error) {
      if (accounts.get(key) === asked) accounts.delete(key);
      throw error;
    }
  }

  return async (user, before) => {
    const decidedAt = steady.now();
    const account = accountOf(user);
    const shared = rightsOfSharedAccount(account).then(({ key, rights }) => ({
      rights,
      asAccount: hash("sha256", JSON.stringify([key, rights]), "base64url"),
    }));
    const isRecent = before?.asAccount !== undefined && decidedAt - before.decidedAt < OWN_MS;
    if (isRecent && before.asAccount === (await shared).asAccount) return before;
    const hasOwn = Object.keys(account.extra ?? {}).length !== Object.keys(user.extra ?? {}).length;
    const [{ rights: ofAccount, asAccount }, rights] = await Promise.all([
      shared,
      hasOwn ? ask(user) : shared.then((found) => found.rights),
    ]);
    const isSame = JSON.stringify(rights) === JSON.stringify(ofAccount);
    return { rights, asAccount: isSame ? asAccount : undefined, decidedAt };
  };
}

function accountOf({ username, uid, groups, extra = {} }: ReviewedUser): ReviewedUser {
  const shared = Object.entries(extra).filter(([name]) => !OF_ONE_TOKEN.has(name));
  return { ...{ username, uid, groups }, extra: Object.fromEntries(shared) } as ReviewedUser;
}
