import type { Actor } from "../actor.ts";

/** A verb on a kind of `tenancy.dev`, in the namespace of tenants. */
export interface Right {
  readonly verb: string;
  readonly resource: string;
}

/** What an account may do here. */
export type AccountRights = Pick<Actor, "role" | "tenants" | "mayClaim">;

const KINDS = ["tenancyclaims", "tenancyworkloads", "tenancypools", "tenancytriggers"];
const rights = (resources: readonly string[], verbs: readonly string[]): Right[] =>
  resources.flatMap((resource) => verbs.map((verb) => ({ verb, resource })));

/**
 * An account that may write workloads can run a program of its own with each tenant's files, so exec and files add
 * nothing to what RBAC gives it.
 */
const ALL = rights(KINDS, ["create", "update", "delete", "get", "list"]);
const CLAIM = rights(["tenancyclaims"], ["create", "patch", "delete", "get", "list"]);
const READ = rights(KINDS, ["get", "list"]);

/** The most that the account's rights allow, or one that it lacks if they allow nothing. */
export async function rightsOfAccount(may: (right: Right) => Promise<boolean>): Promise<AccountRights | Right> {
  const answers = new Map<string, Promise<boolean>>();
  function ask(right: Right): Promise<boolean> {
    const asked = `${right.verb} ${right.resource}`;
    const answer = answers.get(asked) ?? may(right);
    answers.set(asked, answer);
    return answer;
  }

  /** A right of the list that the account lacks. Five are asked for at once: most accounts lack an early one. */
  async function lacking(wanted: readonly Right[]): Promise<Right | undefined> {
    for (let at = 0; at < wanted.length; at += 5) {
      const some = wanted.slice(at, at + 5);
      const allowed = await Promise.all(some.map(ask));
      const missing = allowed.indexOf(false);
      if (missing >= 0) return some[missing];
    }
    return undefined;
  }

  if ((await lacking(ALL)) === undefined) return { role: "platform", tenants: undefined };
  const mayClaim = (await lacking(CLAIM)) === undefined;
  const unread = await lacking(READ);
  if (unread === undefined) return { role: "reader", tenants: undefined, ...(mayClaim && { mayClaim }) };
  // A reader of no tenant, so that only claims are left.
  return mayClaim ? { role: "reader", tenants: [], mayClaim } : unread;
}

export function missingRight(
  { verb, resource }: Right,
  { user, namespace }: { user: string; namespace: string },
): string {
  return `${user} has no role here: it may not ${verb} ${resource}.tenancy.dev in namespace ${namespace}; docs/reference/keys.md lists the rights`;
}
