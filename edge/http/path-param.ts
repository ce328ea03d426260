import { HttpError } from "./http-error.ts";
import { quote } from "./quote.ts";
import type { RoutedRequest } from "./router.ts";

/**
 * A path parameter, percent-decoded once and checked.
 *
 * @param rule.accepts whether the decoded value is legal
 * @param rule.says the rule in words, after "path: "
 * @throws HttpError 400 where the encoding is broken or the rule does not accept the value
 */
export function pathParam(
  request: RoutedRequest,
  name: string,
  rule: { accepts: (value: string) => boolean; says: string },
): string {
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

/** A query parameter that is `true` or `false`, false without it. @throws HttpError 400 for anything else */
export function queryFlag({ query }: RoutedRequest, name: string): boolean {
  const value = query[name];
  if (value === undefined || value === "false") return false;
  if (value === "true") return true;
  throw new HttpError(400, `query.${name}: must be true or false`);
}
