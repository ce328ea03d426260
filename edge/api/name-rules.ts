import { isObjectName, isTenantId } from "../../crds/names.ts";
import { pattern } from "../../crds/schema/patterns.ts";

/** What a tenant id must be, as a check and in words. */
export const tenantIdRule = {
  accepts: (value: string): boolean => isTenantId(value),
  says: `a tenant id is 1 to 63 letters, digits, ".", "_" and "-", and starts and ends with a letter or digit`,
} as const;

/** What a workload's name must be, as a check and in words. */
export const workloadNameRule = {
  accepts: (value: string): boolean => isObjectName(value),
  says: `a workload's name is 1 to 63 lower-case letters, digits, "-" and ".", and starts and ends with a letter or digit`,
} as const;

const SUBDOMAIN = new RegExp(pattern.subdomain);

/** What an instance's name, which is its pod's, must be, as a check and in words. */
export const instanceNameRule = {
  accepts: (value: string): boolean => value.length <= 253 && SUBDOMAIN.test(value),
  says: `an instance's name is 1 to 253 lower-case letters, digits, "-" and ".", and starts and ends with a letter or digit`,
} as const;

/** What a trigger's name must be, as a check and in words. */
export const triggerNameRule = {
  accepts: (value: string): boolean => isObjectName(value),
  says: `a trigger's name is 1 to 63 lower-case letters, digits, "-" and ".", and starts and ends with a letter or digit`,
} as const;
