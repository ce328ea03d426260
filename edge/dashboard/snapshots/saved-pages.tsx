import { useState } from "preact/hooks";
import { CallError, send } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import type { ListPage } from "../api/read-pages.ts";
import { Problem } from "../parts/problem.tsx";

/** A list of what a version holds, as far as it is read. */
export interface SavedPages<Row> {
  /** Undefined before the first page is read. */
  readonly rows: readonly Row[] | undefined;
  /** Whether there are more rows than those. */
  readonly hasMore: boolean;
  readonly isReading: boolean;
  readonly error: Error | undefined;
  /** Reads the next page. */
  more(): void;
  again(): void;
}

/** Reads the first page of a list, and the others on request: a version has up to 200 000 entries. */
export function useSavedPages<Row>(path: string): SavedPages<Row> {
  const [before, setBefore] = useState<{ path: string; rows: readonly Row[]; after?: string }>({ path, rows: [] });
  const { rows, after } = before.path === path ? before : { rows: [], after: undefined };
  const { value, error, again } = useLoad(`${path} ${after ?? ""}`, (signal) =>
    readSavedPage<Row>(path, { after, signal }),
  );
  const all = value === undefined ? rows : [...rows, ...value.rows];
  return {
    rows: value === undefined && after === undefined ? undefined : all,
    hasMore: value === undefined ? after !== undefined : value.next !== undefined,
    isReading: value === undefined && error === undefined,
    error,
    again,
    more() {
      if (value?.next !== undefined) setBefore({ path, rows: all, after: value.next });
    },
  };
}

async function readSavedPage<Row>(
  path: string,
  { after, signal }: { after: string | undefined; signal: AbortSignal },
): Promise<ListPage<Row>> {
  const page = after === undefined ? "" : `${path.includes("?") ? "&" : "?"}after=${after}`;
  const response = await send("GET", `${path}${page}`, { signal });
  const next = response.headers.get("x-tenancy-next") ?? undefined;
  return { rows: (await response.json()) as Row[], version: undefined, next };
}

/** What is below a list: why it cannot be read, or the rest of it. */
export function More<Row>({ of }: { of: SavedPages<Row> }) {
  const { hasMore, isReading, error, more, again } = of;
  // A version never changes, so that these are not answered otherwise the next time.
  const isFinal = error instanceof CallError && (error.status === 404 || error.status === 409);
  return (
    <>
      <Problem error={error} />
      {error !== undefined && !isFinal && (
        <div class="acts">
          <button type="button" onClick={again}>
            Try again
          </button>
        </div>
      )}
      {isReading && !hasMore && <p class="muted">Reading …</p>}
      {hasMore && error === undefined && (
        <div class="acts">
          {/* A disabled button would lose the focus. */}
          <button type="button" aria-disabled={isReading ? "true" : undefined} onClick={more}>
            {isReading ? "Show more …" : "Show more"}
          </button>
        </div>
      )}
    </>
  );
}
