import { quote } from "../../../../crds/quote.ts";
import type { Actor } from "../../../access/actor.ts";
import { HttpError } from "../../../http/http-error.ts";
import { queryText } from "../../../http/parameters.ts";
import type { RoutedRequest } from "../../../http/router.ts";
import type { ControlServices } from "../control-services.ts";
import type { Sandbox } from "../sandbox.ts";

const MOST = 100;

/** What a list is asked for. */
export interface ListQuery {
  readonly isWanted: (sandbox: Sandbox) => boolean;
  readonly template: string | undefined;
  readonly metadata: ReadonlyMap<string, string>;
  readonly isNewestFirst: boolean;
  readonly limit: number;
}

/** The header with the cursor of the next page. */
export function nextHeader(cursor: object | undefined): Record<string, string> {
  return cursor === undefined ? {} : { "x-next-token": Buffer.from(JSON.stringify(cursor)).toString("base64url") };
}

/** The cursor in `nextToken`, in JSON; undefined without one. */
export function cursorText(request: RoutedRequest): string | undefined {
  const token = queryText(request, "nextToken", {
    accepts: (text) => /^[\w-]{1,1400}$/.test(text),
    says: "must be what x-next-token returned",
  });
  return token && Buffer.from(token, "base64url").toString("utf8");
}

/** @throws HttpError 400 if it is not a number from 1 to 100 */
export function limitQuery({ query: { limit } }: RoutedRequest): number {
  const count = typeof limit === "string" && /^[1-9]\d{0,2}$/.test(limit) ? Number(limit) : Number.NaN;
  if (limit !== undefined && !(count <= MOST))
    throw new HttpError(400, `query.limit: must be a whole number from 1 to ${MOST}, got ${quote(String(limit))}`);
  return limit === undefined ? MOST : count;
}

/** A key of some tenants is limited as the first of them is, or as a tenant of its start. @throws HttpError 429 */
export function countList({ tenants }: Pick<Actor, "tenants">, { rates }: ControlServices): void {
  if (tenants?.[0] !== undefined) rates?.admit(tenants[0]);
}
