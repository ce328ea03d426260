import { pattern } from "../../crds/patterns.ts";

const SUBDOMAIN = new RegExp(pattern.subdomain);

/** What an instance's name, which is its pod's, must be, as a check and in words. */
export const instanceNameRule = {
  accepts: (value: string): boolean => value.length <= 253 && SUBDOMAIN.test(value),
  says: `an instance's name is 1 to 253 lower-case letters, digits, "-" and ".", and starts and ends with a letter or digit`,
} as const;
