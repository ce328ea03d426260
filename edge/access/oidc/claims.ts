import type { JWTPayload } from "jose";
import { isTenantId } from "../../../crds/names.ts";
import type { Role } from "../actor.ts";
import type { OidcConfig } from "./oidc-config.ts";

/** What a token's claims allow. */
export interface ClaimedRights {
  readonly role: Role;
  readonly tenants: readonly string[] | undefined;
}

const MAX_TENANTS = 100;

/**
 * The rights of a verified token's claims, or why it has none: a sentence without a value of the token. Values of the
 * tenant claim are ids only: a `*` in one would reach other tenants, and the issuer's users may choose values.
 */
export function rightsOf(
  claims: JWTPayload,
  { roles, roleClaim, tenantClaim }: Pick<OidcConfig, "roles" | "roleClaim" | "tenantClaim">,
): ClaimedRights | string {
  const groups = textsOf(claims, roleClaim);
  const { role, isOfAll = false } = roles.find(({ group }) => groups?.includes(group)) ?? {};
  if (role === undefined)
    return `the token has no role here: its claim ${roleClaim} has no group of TENANCY_OIDC_ROLES`;
  if (role === "admin" || role === "platform") return { role, tenants: undefined };
  // Many providers leave out an empty claim: who has lost the last tenant must not see all of them.
  if (role === "reader" && (isOfAll || tenantClaim === undefined)) return { role, tenants: undefined };
  const tenants = tenantClaim === undefined ? undefined : textsOf(claims, tenantClaim);
  if (tenants === undefined || tenants.length === 0)
    return `the token reaches no tenant: its claim ${tenantClaim} must have an id or a list of ids`;
  if (tenants.length > MAX_TENANTS)
    return `the token reaches no tenant: its claim ${tenantClaim} has more than ${MAX_TENANTS} ids`;
  if (!tenants.every(isTenantId))
    return `the token reaches no tenant: its claim ${tenantClaim} has a value that is not a tenant id`;
  return { role, tenants };
}

/** A claim that is a text or a list of texts; undefined if it is something else. */
function textsOf(claims: JWTPayload, name: string): readonly string[] | undefined {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  if (typeof value === "string") return [value];
  return Array.isArray(value) && value.every((one) => typeof one === "string") ? value : undefined;
}
