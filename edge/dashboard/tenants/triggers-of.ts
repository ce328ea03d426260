import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** When a trigger claims for a tenant; undefined if it never does. */
export function claimsFor(
  { tenant, guards = [] }: Pick<ApiTypes["TriggerSpec"], "tenant" | "guards">,
  tenantId: string,
): string | undefined {
  const isLeftOut = guards.some(
    ({ type, config }) => type === "allowlist" && config.tenantIds?.includes(tenantId) === false,
  );
  if (isLeftOut) return undefined;
  if (tenant.static !== undefined) return tenant.static === tenantId ? "at each event" : undefined;
  const { from = "", prefix = "" } = tenant;
  if (!tenantId.startsWith(prefix) || tenantId.length === prefix.length) return undefined;
  return `at events whose ${from} is ${tenantId.slice(prefix.length)}`;
}
