import { isObjectName } from "../../crds/names.ts";

/** What a trigger's name must be, as a check and in words. */
export const triggerNameRule = {
  accepts: (value: string): boolean => isObjectName(value),
  says: `a trigger's name is 1 to 63 lower-case letters, digits, "-" and ".", and starts and ends with a letter or digit`,
} as const;
