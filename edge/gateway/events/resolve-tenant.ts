import { isTenantId } from "../../../crds/names.ts";
import type { TriggerSpec } from "../../../crds/trigger.ts";
import { tenantIdRule } from "../../http/parameters.ts";

/** The tenant of an event, or why there is none, in words for the event's source. */
export type ResolvedTenant = { readonly tenantId: string } | { readonly problem: string };

/**
 * Finds an event's tenant: `static`, or `prefix` and the value at the dotted path `from`, such as
 * `repository.owner.login` or `items.0.id`.
 *
 * Only an object's own properties count; a number becomes its decimal text.
 */
export function resolveTenant(tenant: TriggerSpec["tenant"], fields: unknown): ResolvedTenant {
  if (tenant.static !== undefined) return checked(tenant.static);
  const path = tenant.from ?? "";
  const value = valueAt(fields, path);
  if (value === undefined) return { problem: `the event has no field ${path}, which must name its tenant` };
  const text = textOf(value);
  if (text === undefined) return { problem: `the event's field ${path} is not a string or an exact integer` };
  return checked(`${tenant.prefix ?? ""}${text}`, path);
}

function checked(tenantId: string, path?: string): ResolvedTenant {
  if (isTenantId(tenantId)) return { tenantId };
  const where = path === undefined ? "the trigger's tenant" : `the event's field ${path}`;
  return { problem: `${where} is not a valid tenant id: ${tenantIdRule.says}` };
}

function valueAt(fields: unknown, path: string): unknown {
  let value = fields;
  for (const key of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** An integer beyond the safe range has lost digits, and could be another tenant's id. */
function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value !== "number") return undefined;
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : String(value);
}
