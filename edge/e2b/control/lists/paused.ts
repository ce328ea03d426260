import { claimKey } from "../../../../crds/claims/claim-key.ts";
import { readKeptSandbox } from "../../../../crds/claims/kept-sandbox.ts";
import { isObjectName, isTenantId } from "../../../../crds/names.ts";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { StoreEntry } from "../../../../crds/snapshots/snapshot-store.ts";
import { compareKeys, type PageFilter } from "../../../../crds/snapshots/store-pages.ts";
import { type Actor, reaches, reachesWorkload } from "../../../access/actor.ts";
import { askStore, storeState } from "../../../api/snapshots/store.ts";
import { HttpError } from "../../../http/http-error.ts";
import { sandboxId } from "../../sandbox-id.ts";
import type { ControlServices } from "../control-services.ts";
import { runningClaim, type Sandbox } from "../sandbox.ts";
import { reachesAll } from "../sandbox-access.ts";
import type { ListQuery } from "./pages.ts";

/** Reads of the store for one page, most of whose entries may be left out. */
const MOST_READS = 4;
const LONGEST_TENANT = 63;

/** A part of the store, between two keys: all tenants, one, or those that begin with a text. */
interface Range {
  readonly tenantId?: string;
  readonly start?: string;
  /** Before its first key. */
  readonly first?: SnapshotKey;
  /** Its last key that can be. */
  readonly last?: SnapshotKey;
}

/** A page of saved files. It can have fewer than the limit, or none, and still not be the last one. */
export interface SavedPage<T> {
  readonly items: T[];
  readonly next: SnapshotKey | undefined;
}

/**
 * A page of paused sandboxes, in the store's order: saved files without a claim.
 *
 * @throws HttpError 503 if the store cannot be read; 400 for a cursor that is no key
 */
export async function pausedPage(
  query: Pick<ListQuery, "template" | "metadata" | "isWanted" | "limit"> & { after: SnapshotKey | undefined },
  asking: { actor: Actor; services: ControlServices; clientGone: AbortSignal },
): Promise<SavedPage<Sandbox>> {
  const { services } = asking;
  const { claims } = services.cache;
  const tenantId = query.metadata.get("tenant");
  return await savedPage({ ...query, tenantId, versions: false }, asking, (entry) => {
    const { workloadRef } = entry;
    const key = { tenantId: entry.tenantId, workloadRef };
    if (entry.version !== undefined || runningClaim(claims.store.by("key", claimKey(key))) !== undefined) return [];
    const { createdAt = entry.usedAt, sandbox: text } = entry.metadata ?? {};
    const sandbox: Sandbox = { state: "paused", key, savedAt: createdAt, kept: readKeptSandbox(text, key) };
    return query.isWanted(sandbox) ? [sandbox] : [];
  });
}

/**
 * A page of what the store has of those tenants that an actor reaches. It reads no more than a few pages of the store,
 * however much the store has.
 *
 * @param query.after only keys after this one
 * @throws HttpError as {@link pausedPage}
 */
export async function savedPage<T>(
  query: {
    readonly template: string | undefined;
    readonly tenantId: string | undefined;
    readonly limit: number;
    readonly after: SnapshotKey | undefined;
    readonly versions: boolean;
  },
  { actor, services, clientGone }: { actor: Actor; services: ControlServices; clientGone: AbortSignal },
  shown: (entry: StoreEntry) => readonly T[],
): Promise<SavedPage<T>> {
  const { template, tenantId, limit, after, versions } = query;
  if (after !== undefined) requireKey(after);
  if ((await storeState(services)) === "none") return { items: [], next: undefined };
  const items: T[] = [];
  /** All keys up to this one are done. */
  let done = after;
  let reads = 0;
  for (const range of rangesOf(actor, tenantId)) {
    if (isBehind(range, done)) continue;
    let next: SnapshotKey | undefined = laterOf(done, range.first);
    do {
      if (reads === MOST_READS || items.length >= limit) return { items, next: done };
      reads += 1;
      const filter: PageFilter = {
        ...{ tenantId: range.tenantId, workloadRef: template, after: next, limit: limit - items.length },
      };
      const page = await askStore(({ archives }, call) => archives.list({ ...filter, versions }, call), {
        ...services,
        clientGone,
      });
      for (const entry of page.items) {
        const isReached = entry.tenantId.startsWith(range.start ?? "") && reachesWorkload(actor, entry.workloadRef);
        if (isReached && sandboxId(entry) !== undefined) items.push(...shown(entry));
      }
      next = page.next;
      done = next ?? done;
    } while (next !== undefined && !isBehind(range, next));
    done = range.last;
  }
  return { items, next: undefined };
}

function isBehind({ last }: Range, key: SnapshotKey | undefined): boolean {
  return key !== undefined && last !== undefined && compareKeys(key, last) >= 0;
}

function laterOf(a: SnapshotKey | undefined, b: SnapshotKey | undefined): SnapshotKey | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return compareKeys(a, b) > 0 ? a : b;
}

/** The parts of the store that an actor reaches, in the store's order, without overlaps. */
function rangesOf(actor: Actor, tenantId: string | undefined): Range[] {
  if (tenantId !== undefined) {
    const isReached = isTenantId(tenantId) && (reachesAll(actor) || reaches(actor, tenantId));
    return isReached ? [exactly(tenantId)] : [];
  }
  if (reachesAll(actor)) return [{}];
  const names = [...new Set(actor.tenants)];
  const isCovered = (name: string) =>
    names.some((other) => other !== name && other.endsWith("*") && name.startsWith(other.slice(0, -1)));
  return names
    .filter((name) => !isCovered(name))
    .map((name) => (name.endsWith("*") ? beginningWith(name.slice(0, -1)) : exactly(name)))
    .sort((a, b) => (a.last && b.last ? compareKeys(a.last, b.last) : 0));
}

/** The workload's name that is sorted last. */
const LAST_WORKLOAD = "z".repeat(63);

function exactly(tenantId: string): Range {
  return { tenantId, last: { tenantId, workloadRef: LAST_WORKLOAD } };
}

/** `-` is sorted before all other characters of a tenant's id, and `z` after them. */
function beginningWith(start: string): Range {
  const left = LONGEST_TENANT - start.length;
  const first = { tenantId: `${start}${"-".repeat(Math.max(0, left - 1))}0`, workloadRef: "0" };
  const last = { tenantId: `${start}${"z".repeat(left)}`, workloadRef: LAST_WORKLOAD };
  return start === "" ? {} : { start, first, last };
}

/** @throws HttpError 400 for a cursor that no page has returned */
function requireKey(key: SnapshotKey): void {
  if (isTenantId(key.tenantId) && isObjectName(key.workloadRef)) return;
  throw new HttpError(400, "query.nextToken: must be what x-next-token returned");
}
