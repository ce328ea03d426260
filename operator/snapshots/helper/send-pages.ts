import { once } from "node:events";
import type { ServerResponse } from "node:http";
import * as v from "valibot";
import { checkSnapshotKey, type SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { PageFilter, StorePage } from "../../../crds/snapshots/store-pages.ts";

const MOST_KEYS = 1000;
const limitSchema = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(MOST_KEYS));

/**
 * Sends the requested page of a list, one item per line. The last line has the number of items and the start of the
 * next page. A client of an earlier version sends no limit: it gets all pages as one list.
 */
export async function sendPages(
  { response, query, signal }: { response: ServerResponse; query: URLSearchParams; signal: AbortSignal },
  read: (page: PageFilter) => Promise<StorePage<SnapshotKey>>,
): Promise<void> {
  const limit = query.get("limit");
  const filter = {
    tenantId: query.get("tenant") ?? undefined,
    workloadRef: query.get("workload") ?? undefined,
    limit: limit === null ? MOST_KEYS : v.parse(limitSchema, Number(limit)),
  };
  const type = { "content-type": "application/x-ndjson" };
  if (limit !== null) {
    const { items, next } = await read({ ...filter, after: keyIn(query.get("after")) });
    response.writeHead(200, type).end(linesOf([...items, { end: items.length, next }]));
    return;
  }
  let sent = 0;
  let after: SnapshotKey | undefined;
  do {
    const { items, next } = await read({ ...filter, after });
    // After the client has disconnected, read no more pages.
    signal.throwIfAborted();
    if (!response.headersSent) response.writeHead(200, type);
    if (!response.write(linesOf(items))) await once(response, "drain", { signal });
    sent += items.length;
    after = next;
  } while (after !== undefined);
  response.end(linesOf([{ end: sent }]));
}

function keyIn(text: string | null): SnapshotKey | undefined {
  if (text === null) return undefined;
  const [tenantId = "", workloadRef = ""] = text.split("/");
  checkSnapshotKey({ tenantId, workloadRef });
  return { tenantId, workloadRef };
}

function linesOf(lines: readonly object[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}
