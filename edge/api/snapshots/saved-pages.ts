import { archiveDigits } from "../../../crds/snapshots/snapshot-key.ts";
import { queryText } from "../../http/parameters.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";
import { limitQuery, limitSchema } from "../pages.ts";
import type { AskedVersion } from "./read-version.ts";

const DEFAULT_LIMIT = 500;
/** The digits of the versions, and how many paths are on the pages before. */
const CURSOR = "^[0-9a-f]{16}(?:-[0-9a-f]{16})?\\.\\d{1,6}$";

/** The query parameters that {@link readPage} reads. */
export const pageSchemas: Readonly<Record<"limit" | "after", OpenApiSchema>> = {
  limit: limitSchema("Maximum number of paths.", { default: DEFAULT_LIMIT }),
  after: {
    ...{ type: "string", pattern: CURSOR },
    description: "The next page, of the same versions, as x-tenancy-next names it.",
  },
};

/** A page of what versions hold. */
export interface SavedPage {
  /** The versions of the pages before, if this is not the first one. */
  readonly versions: readonly string[];
  /** @returns the page's part of the whole list, and the headers that name the next page */
  of<T>(all: readonly T[], asked: readonly AskedVersion[]): { items: T[]; headers: Record<string, string> };
}

/** Reads `limit` and `after`. @throws HttpError 400 if one is not valid */
export function readPage(request: RoutedRequest): SavedPage {
  const limit = limitQuery(request) ?? DEFAULT_LIMIT;
  const [versions, skipped = "0"] = queryText(request, "after", cursorRule)?.split(".") ?? [];
  const from = Number(skipped);
  return {
    versions: versions?.split("-") ?? [],
    of(all, asked) {
      const to = from + limit;
      const digits = asked.map(({ version }) => archiveDigits(version.sha256));
      const headers = to < all.length ? { "x-tenancy-next": `${digits.join("-")}.${to}` } : {};
      return { items: all.slice(from, to), headers };
    },
  };
}

const cursorRule = {
  accepts: (value: string): boolean => new RegExp(CURSOR).test(value),
  says: "must be what x-tenancy-next returned",
} as const;
