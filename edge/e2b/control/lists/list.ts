import * as v from "valibot";
import type { Claim } from "../../../../crds/claim.ts";
import { claimKey } from "../../../../crds/claims/claim-key.ts";
import { annotation } from "../../../../crds/labels.ts";
import { isTime } from "../../../../crds/time.ts";
import { root } from "../../../access/actor.ts";
import { requireFresh } from "../../../cluster/freshness.ts";
import { HttpError } from "../../../http/http-error.ts";
import { queryText, queryWords } from "../../../http/parameters.ts";
import { jsonResponse } from "../../../http/response.ts";
import type { Route, RoutedRequest } from "../../../http/router.ts";
import type { ControlServices } from "../control-services.ts";
import { findSandbox, listedSandbox, metadataOf, runningClaim, type Sandbox, sandboxDetail } from "../sandbox.ts";
import { listOwn, reachesAll, reachesKey, sandboxKey, sandboxNotFound, viewOne } from "../sandbox-access.ts";
import { readTemplate } from "../templates/template.ts";
import { countList, cursorText, type ListQuery, limitQuery, nextHeader } from "./pages.ts";
import { pausedPage } from "./paused.ts";

/** Of the list that has no pages, the newest first. */
const MOST_UNPAGED = 1000;
const STATES = ["running", "paused"] as const;

const cursorSchema = v.pipe(
  v.string(),
  v.maxLength(1024),
  v.parseJson(),
  v.variant("state", [
    v.strictObject({ state: v.literal("running"), startedAt: v.string(), name: v.string() }),
    v.strictObject({
      state: v.literal("paused"),
      after: v.optional(v.strictObject({ tenantId: v.string(), workloadRef: v.string() })),
    }),
  ]),
);
/** Where the next page begins. */
type Cursor = v.InferOutput<typeof cursorSchema>;

const filters = { metadata: {}, template: {}, startedAfter: {} };

/** `GET /sandboxes`, `GET /v2/sandboxes` and `GET /sandboxes/{id}`. */
export function listRoutes(services: ControlServices): Route[] {
  return [
    {
      method: "GET",
      path: "/e2b/sandboxes/:sandbox",
      access: viewOne,
      async handle(request, { clientGone = request.signal }) {
        const found = await findSandbox(sandboxKey(request), services, clientGone);
        if (found === undefined) throw sandboxNotFound(request);
        return jsonResponse(sandboxDetail(found, services));
      },
    },
    {
      method: "GET",
      path: "/e2b/v2/sandboxes",
      access: listOwn,
      query: { ...filters, state: {}, order: {}, limit: {}, nextToken: {} },
      async handle(request, { clientGone = request.signal, mayBeSilent }) {
        const states = queryWords(request, "state", STATES) ?? STATES;
        const query = listQuery(request);
        const cursor = cursorOf(request);
        mayBeSilent?.();
        const { items, next } = await readPage(query, { states, cursor, clientGone, request, services });
        return jsonResponse(shown(items, services), { headers: nextHeader(next) });
      },
    },
    {
      method: "GET",
      path: "/e2b/sandboxes",
      access: listOwn,
      query: filters,
      async handle(request) {
        const query = { ...listQuery(request), limit: MOST_UNPAGED };
        countList(request.caller?.actor ?? root, services);
        return jsonResponse(shown(runningPage(query, { cursor: undefined, request, services }).items, services));
      },
    },
  ];
}

function shown(items: readonly Sandbox[], services: ControlServices): object[] {
  return items.flatMap((item) => listedSandbox(item, services) ?? []);
}

function cursorOf(request: RoutedRequest): Cursor | undefined {
  const text = cursorText(request);
  if (text === undefined) return undefined;
  const { success, output } = v.safeParse(cursorSchema, text);
  if (!success) throw new HttpError(400, "query.nextToken: must be what x-next-token returned");
  return output;
}

/** @throws HttpError 400 for values that no list can have */
function listQuery(request: RoutedRequest): ListQuery {
  const startedAfter = queryText(request, "startedAfter", { accepts: isTime, says: "must be a time (RFC 3339)" });
  const template = queryText(request, "template", { accepts: () => true, says: "" });
  const order = queryWords(request, "order", ["asc", "desc"])?.[0] ?? "desc";
  const metadata = metadataQuery(request);
  // As they are written; the tenant may not be.
  const values = [...metadata].flatMap(([name, value]) => (name === "tenant" ? [] : [JSON.stringify(value)]));
  const since = startedAfter === undefined ? undefined : Date.parse(startedAfter);
  return {
    template: template === undefined || template === "" ? undefined : readTemplate(template).workloadRef,
    metadata,
    isNewestFirst: order === "desc",
    limit: limitQuery(request),
    isWanted(sandbox) {
      const startedAt = sandbox.state === "running" ? sandbox.claim.metadata.creationTimestamp : sandbox.savedAt;
      if (since !== undefined && !(Date.parse(startedAt ?? "") >= since)) return false;
      if (metadata.size === 0) return true;
      // Of ten thousand annotations, parsing those that cannot match would take 300 ms.
      const text =
        sandbox.state === "running" ? (sandbox.claim.metadata.annotations?.[annotation.e2b] ?? "") : undefined;
      if (text !== undefined && !values.every((value) => text.includes(value))) return false;
      const given = metadataOf(sandbox);
      return [...metadata].every(([name, value]) => Object.hasOwn(given, name) && given[name] === value);
    },
  };
}

/** The pairs of `metadata=user%3Dabc`, which the SDKs encode twice. */
function metadataQuery(request: RoutedRequest): Map<string, string> {
  const text = queryText(request, "metadata", { accepts: () => true, says: "" }) ?? "";
  try {
    return new Map(
      [...new URLSearchParams(text)].map(([name, value]) => [decodeURIComponent(name), decodeURIComponent(value)]),
    );
  } catch (cause) {
    throw new HttpError(400, "query.metadata: must be pairs such as user=abc, each part percent-encoded", { cause });
  }
}

interface Asking {
  readonly cursor: Cursor | undefined;
  readonly request: RoutedRequest;
  readonly services: ControlServices;
}

/** Running sandboxes by their start, then paused ones by tenant: the store of saved files has no other order. */
async function readPage(
  query: ListQuery,
  { states, clientGone, ...asking }: Asking & { states: readonly string[]; clientGone: AbortSignal },
): Promise<{ items: Sandbox[]; next: Cursor | undefined }> {
  const { cursor, services } = asking;
  const isPaused = cursor?.state === "paused";
  const { actor = root } = asking.request.caller ?? {};
  countList(actor, services);
  const running = isPaused || !states.includes("running") ? { items: [], next: undefined } : runningPage(query, asking);
  if (running.next !== undefined || !states.includes("paused")) return running;
  const left = query.limit - running.items.length;
  if (left === 0) return { items: running.items, next: { state: "paused" } };
  const after = isPaused ? cursor.after : undefined;
  const paused = await pausedPage({ ...query, limit: left, after }, { actor, services, clientGone });
  const next: Cursor | undefined = paused.next && { state: "paused", after: paused.next };
  return { items: [...running.items, ...paused.items], next };
}

/** Keeps only what a page needs in order, since most claims are on other pages. */
function runningPage(
  { template, isWanted, isNewestFirst, limit }: ListQuery,
  { cursor, request, services }: Asking,
): { items: Sandbox[]; next: Cursor | undefined } {
  const { cache } = services;
  const { actor = root } = request.caller ?? {};
  const seesAll = reachesAll(actor) && actor.workloads === undefined;
  requireFresh(cache.claims);
  const sign = isNewestFirst ? -1 : 1;
  const compare = (a: Place, b: Place): number => sign * (order(a.startedAt, b.startedAt) || order(a.name, b.name));
  const from = cursor?.state === "running" ? cursor : undefined;
  const found: (Place & { readonly sandbox: Sandbox })[] = [];
  for (const claim of cache.claims.store.values()) {
    const place = placeOf(claim);
    if (from !== undefined && compare(place, from) <= 0) continue;
    const last = found.at(-1);
    if (found.length > limit && last !== undefined && compare(place, last) > 0) continue;
    const { spec } = claim;
    if (template !== undefined && spec.workloadRef !== template) continue;
    if (!seesAll && !reachesKey(actor, spec)) continue;
    const { tenantId, workloadRef } = spec;
    const sandbox: Sandbox = { state: "running", key: { tenantId, workloadRef }, claim };
    if (!isWanted(sandbox)) continue;
    if (runningClaim(cache.claims.store.by("key", claimKey(spec))) !== claim) continue;
    found.splice(placeIn(found, place, compare), 0, { ...place, sandbox });
    if (found.length > limit + 1) found.pop();
  }
  const page = found.slice(0, limit);
  const last = page.at(-1);
  const isMore = found.length > limit && last !== undefined;
  return {
    items: page.map(({ sandbox }) => sandbox),
    next: isMore ? { state: "running", startedAt: last.startedAt, name: last.name } : undefined,
  };
}

/** The order of a list: by whole seconds, as Kubernetes counts them, then by name. */
interface Place {
  readonly startedAt: string;
  readonly name: string;
}

function placeOf({ metadata: { name, creationTimestamp = "" } }: Claim): Place {
  return { startedAt: creationTimestamp, name };
}

function order(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function placeIn(sorted: readonly Place[], place: Place, compare: (a: Place, b: Place) => number): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    const other = sorted[middle];
    if (other !== undefined && compare(other, place) < 0) from = middle + 1;
    else to = middle;
  }
  return from;
}
