import { isTenantId } from "../../crds/names.ts";
import { pattern } from "../../crds/schema/patterns.ts";
import { queryText } from "../http/parameters.ts";
import type { RoutedRequest } from "../http/router.ts";
import type { OpenApiSchema } from "./openapi/request-schemas.ts";

/** The most tenants that `?tenants=` can name. */
const MOST_TENANTS = 100;

const ID = pattern.tenantId.slice(1, -1);
const START = new RegExp(pattern.tenantIdPrefix);

const tenantsRule = {
  accepts: (text: string): boolean => {
    const ids = text.split(",");
    return ids.length <= MOST_TENANTS && ids.every(isTenantId);
  },
  says: `must be at most ${MOST_TENANTS} tenant ids, separated by commas`,
};
const prefixRule = {
  accepts: (text: string): boolean => text.length <= 63 && START.test(text),
  says: `must be the start of a tenant id: letters, digits, ".", "_" and "-", with a letter or digit first`,
};

/** The query parameters that {@link tenantsQuery} reads. */
export const tenantsSchemas: Readonly<Record<"tenants" | "prefix", OpenApiSchema>> = {
  tenants: {
    type: "string",
    pattern: `^${ID}(?:,${ID}){0,${MOST_TENANTS - 1}}$`,
    not: { pattern: "[^,]{64}" },
    description: `Only these tenants, at most ${MOST_TENANTS}, separated by commas.`,
  },
  prefix: {
    type: "string",
    pattern: pattern.tenantIdPrefix,
    maxLength: 63,
    description: "Only tenants whose ids begin with this.",
  },
};

/** Reads `tenants` and `prefix`; each is undefined if absent. @throws HttpError 400 if one is not valid */
export function tenantsQuery(request: RoutedRequest): {
  tenants: ReadonlySet<string> | undefined;
  prefix: string | undefined;
} {
  const tenants = queryText(request, "tenants", tenantsRule);
  return {
    tenants: tenants === undefined ? undefined : new Set(tenants.split(",")),
    prefix: queryText(request, "prefix", prefixRule),
  };
}
