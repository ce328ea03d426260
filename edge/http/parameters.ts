import { isObjectName, isTenantId } from "../../crds/names.ts";
import { quote } from "../../crds/quote.ts";
import { pattern } from "../../crds/schema/patterns.ts";
import { HttpError } from "./http-error.ts";
import type { RoutedRequest } from "./router.ts";

/** A rule of a parameter. */
export interface PathRule {
  /** Whether a decoded value is valid. */
  readonly accepts: (value: string) => boolean;
  /** The rule in words, after `path: `. */
  readonly says: string;
}

/**
 * A path parameter, percent-decoded once and checked.
 *
 * @throws HttpError 400 if the encoding is invalid or the rule does not accept the value
 */
export function pathParam(request: RoutedRequest, name: string, rule: PathRule): string {
  const raw = request.params[name] ?? "";
  let value: string;
  try {
    value = decodeURIComponent(raw);
  } catch (cause) {
    throw new HttpError(400, `path: ${quote(raw)} is not valid percent-encoding`, { cause });
  }
  if (!rule.accepts(value)) throw new HttpError(400, `path: ${rule.says}, got ${quote(value)}`);
  return value;
}

/** A query parameter that is `true` or `false`; false by default. @throws HttpError 400 for other values */
export function queryFlag({ query }: RoutedRequest, name: string): boolean {
  const value = query[name];
  if (value === undefined || value === "false") return false;
  if (value === "true") return true;
  throw new HttpError(400, `query.${name}: must be true or false`);
}

/** A query parameter that follows a rule; undefined without it. @throws HttpError 400 for other values, and for two */
export function queryText({ query }: RoutedRequest, name: string, rule: PathRule): string | undefined {
  const value = query[name];
  if (value === undefined) return undefined;
  if (typeof value !== "string" || !rule.accepts(value)) {
    throw new HttpError(400, `query.${name}: ${rule.says}, got ${quote(String(value))}`);
  }
  return value;
}

/** A query parameter with words separated by commas; undefined without it. @throws HttpError 400 for an unknown word */
export function queryWords(
  { query }: RoutedRequest,
  name: string,
  known: readonly string[],
): readonly string[] | undefined {
  const value = query[name];
  if (value === undefined) return undefined;
  const words = [value].flat().flatMap((text) => text.split(","));
  const unknown = words.find((word) => !known.includes(word));
  if (unknown !== undefined)
    throw new HttpError(400, `query.${name}: ${quote(unknown)} is not one of ${known.join(", ")}`);
  return words;
}

/** A whole number up to `most` in the query; undefined if absent. @throws HttpError 400 for other values */
export function queryNumber({ query }: RoutedRequest, name: string, most: number): number | undefined {
  const value = query[name];
  if (value === undefined) return undefined;
  const count = typeof value === "string" && /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
  if (!(count <= most))
    throw new HttpError(400, `query.${name}: must be a whole number of at most ${most}, got ${quote(String(value))}`);
  return count;
}

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

/** What a pool's name must be, as a check and in words. */
export const poolNameRule = {
  accepts: (value: string): boolean => isObjectName(value),
  says: `a pool's name is 1 to 63 lower-case letters, digits, "-" and ".", and starts and ends with a letter or digit`,
} as const;
