import { isTenantId } from "../../crds/names.ts";

/** What a tenant id must be, as a check and in words. */
export const tenantIdRule = {
  accepts: (value: string): boolean => isTenantId(value),
  says: `a tenant id is 1 to 63 letters, digits, ".", "_" and "-", and starts and ends with a letter or digit`,
} as const;
