/** What a key is for. */
export const roles = ["admin", "platform", "tenant", "reader"] as const;
export type Role = (typeof roles)[number];

/** Who makes a request: the holder of a key or a token, as that says. */
export interface Actor {
  readonly kind: "root" | "key" | "person" | "serviceAccount";
  /**
   * Of the key; `root` for TENANCY_API_KEY, or where no key is set; for a person the issuer's `sub`, for an account its
   * user name.
   */
  readonly id: string;
  /** Identifies the key or token as it is: another one once it is changed, or replaced by one with its id. */
  readonly ref: string;
  readonly role: Role;
  /** Ids of the tenants that it reaches, or the start of ids before a `*`. Undefined for all tenants. */
  readonly tenants: readonly string[] | undefined;
  /** Names of the workloads that it reaches, or the start of names before a `*`. @default all workloads */
  readonly workloads?: readonly string[] | undefined;
  /** How many requests a second its key may make of each replica. @default any number */
  readonly requestsPerSecond?: number | undefined;
  /** Whether it may use the routes of claims for every tenant, whatever its role. @default false */
  readonly mayClaim?: boolean;
  /** Aborted when the key is deleted, changed or has expired: end what the actor has opened. */
  readonly ended: AbortSignal;
  /**
   * Counts something as open, until the returned function is called; further calls of that do nothing. What is not
   * counted may outlive a token that is found invalid. Undefined for keys, whose end is always seen.
   */
  opens?(): () => void;
  /** When a token ends, in milliseconds since the epoch. Undefined for keys, which others look up by `ref`. */
  readonly endsAt?: number;
}

export const root: Actor = {
  kind: "root",
  id: "root",
  ref: "root",
  role: "admin",
  tenants: undefined,
  ended: new AbortController().signal,
};

/** Whether an actor may reach the things of a tenant. */
export function reaches({ tenants }: Pick<Actor, "tenants">, tenantId: string): boolean {
  return tenants === undefined || isNamed(tenants, tenantId);
}

/** Whether an actor may reach the things of a workload; `undefined` for a thing that belongs to no workload. */
export function reachesWorkload({ workloads }: Pick<Actor, "workloads">, workload: string | undefined): boolean {
  return workloads === undefined || (workload !== undefined && isNamed(workloads, workload));
}

function isNamed(namesOrStarts: readonly string[], name: string): boolean {
  return namesOrStarts.some((one) => (one.endsWith("*") ? name.startsWith(one.slice(0, -1)) : name === one));
}

/** An actor, and how long its request may hold a connection open. */
export interface Caller {
  readonly actor: Actor;
  /** When the browser's session ends, in milliseconds since the epoch. @default the caller sent its key */
  readonly sessionEndsAt?: number;
}

export const rootCaller: Caller = { actor: root };
