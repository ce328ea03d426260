import type { Role } from "./actor.ts";

/** Who may call a route. The role `admin` may call every route. */
export interface RouteAccess {
  readonly roles: readonly Exclude<Role, "admin">[];
  /**
   * Where a request says whose things it reaches: in the path parameter `id`, as a tenant or an instance, or in the
   * query parameter `tenant`. With `own`, the route leaves out what the key does not reach.
   *
   * @default it reaches the whole service, which a key of some tenants may not
   */
  readonly whose?: "tenant" | "instance" | "query" | "own";
  /**
   * Whether the route itself holds a key of some workloads to these: by the workload that its body names, or by leaving
   * out the others. The path parameter `workload`, and the workload of an instance, are checked for it.
   *
   * @default without one of these, it is about all workloads, which such a key may not reach
   */
  readonly checksWorkload?: true;
  /** Whether an actor with `mayClaim` may call it. @default false */
  readonly claims?: true;
}

/** Only for `admin`. */
export const adminOnly: RouteAccess = { roles: [] };
/** Changes the service. */
export const platformOnly: RouteAccess = { roles: ["platform"] };
/** Shows the service. */
export const serviceView: RouteAccess = { roles: ["platform", "reader"] };
/** Lists things of all tenants, or of one. */
export const tenantLists: RouteAccess = {
  roles: ["platform", "tenant", "reader"],
  whose: "query",
  checksWorkload: true,
};
/** Acts on a tenant's things, or shows what is in them. */
export const tenantUse: RouteAccess = { roles: ["platform", "tenant"], whose: "tenant" };
/** The same of the workload that the body names. */
export const namedUse: RouteAccess = { ...tenantUse, checksWorkload: true };
/** Claims, extends and releases. */
export const claimUse: RouteAccess = { ...namedUse, claims: true };
/** Shows a tenant's things from outside. */
export const tenantView: RouteAccess = { roles: ["platform", "tenant", "reader"], whose: "tenant" };
/** Shows claims. */
export const claimView: RouteAccess = { ...tenantView, claims: true };
/** Shows those claims of a tenant that the key reaches. */
export const claimsView: RouteAccess = { ...claimView, checksWorkload: true };
export const claimLists: RouteAccess = { ...tenantLists, claims: true };
export const instanceUse: RouteAccess = { roles: ["platform", "tenant"], whose: "instance" };
export const instanceView: RouteAccess = { roles: ["platform", "tenant", "reader"], whose: "instance" };
/** Shows nothing of tenants, or leaves out what the key does not reach. */
export const anyKey: RouteAccess = { roles: ["platform", "tenant", "reader"], whose: "own" };
