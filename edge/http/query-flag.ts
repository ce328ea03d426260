import { HttpError } from "./http-error.ts";
import type { RoutedRequest } from "./route.ts";

/** A query parameter that is `true` or `false`, false without it. @throws HttpError 400 for anything else */
export function queryFlag({ query }: RoutedRequest, name: string): boolean {
  const value = query[name];
  if (value === undefined || value === "false") return false;
  if (value === "true") return true;
  throw new HttpError(400, `query.${name}: must be true or false`);
}
