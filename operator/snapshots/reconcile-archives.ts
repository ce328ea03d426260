import { claimKey } from "../../crds/claims/claim-key.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { claims } from "../../crds/kinds.ts";
import { label } from "../../crds/labels.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { StoreUse } from "../../crds/snapshots/snapshot-store.ts";
import type { ReconcileResult } from "../queue.ts";
import type { SnapshotsContext } from "./context.ts";
import { hasStore } from "./has-store.ts";

const HOUR_MS = 3_600_000;
const PAGE_KEYS = 500;
/** After a sweep, the pause is so many times as long as the sweep took, unless archives are in use. */
const REST_TIMES = 10;

/**
 * Once an hour, deletes what interrupted saves left in the store. If `TENANCY_SNAPSHOT_TTL` is set, deletes archives
 * that have not been used for that time.
 *
 * An archive is in use while its tenant has a claim on the workload. The sweep notes this in the store repeatedly, so
 * the time counts from the end of the last claim. The last note may be missing, so a tenth of the time, at most an
 * hour, is added. An archive is deleted only if the time is over by the clocks of the operator, of the API server and
 * of the store. The archives are read in pages, so that other work can run in between.
 */
export async function reconcileArchives(context: SnapshotsContext, signal: AbortSignal): Promise<ReconcileResult> {
  const { snapshots, config } = context;
  if (!hasStore(context)) return { requeueAfterMs: HOUR_MS };
  await snapshots.tidy(signal);
  const { ttlMs } = config.snapshots;
  if (ttlMs === undefined) return { requeueAfterMs: HOUR_MS };

  const began = performance.now();
  const graceMs = Math.min(HOUR_MS, ttlMs / 10);
  let isAnyInUse = false;
  let nextEnd = Number.POSITIVE_INFINITY;
  let after: SnapshotKey | undefined;
  do {
    const { items, next } = await snapshots.uses({ after, limit: PAGE_KEYS }, signal);
    const swept = await sweepPage(items, context, { unusedForMs: ttlMs + graceMs, noteAfterMs: graceMs / 2, signal });
    isAnyInUse ||= swept.isAnyInUse;
    nextEnd = Math.min(nextEnd, swept.nextEnd);
    after = next;
  } while (after !== undefined);

  // With a million archives, one is always due.
  const restMs = REST_TIMES * (performance.now() - began);
  const nextMs = Math.max(restMs, nextEnd - systemClock.now());
  return { requeueAfterMs: Math.max(1000, Math.min(HOUR_MS, isAnyInUse ? graceMs / 2 : HOUR_MS, nextMs)) };
}

/**
 * Notes the use of a page's archives, and deletes those that are due.
 *
 * @returns when the next one is due, in milliseconds since 1970
 */
async function sweepPage(
  page: readonly StoreUse[],
  context: SnapshotsContext,
  { unusedForMs, noteAfterMs, signal }: { unusedForMs: number; noteAfterMs: number; signal: AbortSignal },
): Promise<{ isAnyInUse: boolean; nextEnd: number }> {
  const { snapshots, log } = context;
  // This machine's clock, one of the three that have to agree.
  const now = systemClock.now();
  const inUse = page.filter((key) => isInUse(key, context));
  const stale = inUse.filter(({ usedAt }) => Date.parse(usedAt) + noteAfterMs < now);
  if (stale.length > 0) await snapshots.touch(stale, signal);

  const endOf = ({ usedAt }: StoreUse): number => Date.parse(usedAt) + unusedForMs;
  const held = new Set(inUse);
  const due: StoreUse[] = [];
  let nextEnd = Number.POSITIVE_INFINITY;
  for (const use of page) {
    if (held.has(use)) continue;
    if (endOf(use) <= now) due.push(use);
    else nextEnd = Math.min(nextEnd, endOf(use));
  }
  const serverNow = due.length === 0 ? now : await apiServerTime(context, signal);
  for (const use of due) {
    if (endOf(use) > serverNow || (await hasClaim(use, context, signal))) continue;
    const { tenantId, workloadRef, usedAt } = use;
    if (await snapshots.delete(use, { unusedForMs, signal })) {
      log.info({ tenantId, workloadRef, usedAt }, "archive deleted, it was not used for TENANCY_SNAPSHOT_TTL");
    }
  }
  return { isAnyInUse: inUse.length > 0, nextEnd };
}

function isInUse(key: SnapshotKey, { informers }: SnapshotsContext): boolean {
  return informers.claims.store.by("key", claimKey(key)).size > 0;
}

/** Asks the API server, and the cache too: a claim that was just made with kubectl has no label yet. */
async function hasClaim(key: SnapshotKey, context: SnapshotsContext, signal: AbortSignal): Promise<boolean> {
  const { tenantId, workloadRef } = key;
  const labelSelector = `${label.tenant}=${tenantId}`;
  const { items } = await context.cluster(claims).list({ labelSelector, signal });
  return items.some(({ spec }) => spec.workloadRef === workloadRef) || isInUse(key, context);
}

/** The API server's time. */
async function apiServerTime({ client }: SnapshotsContext, signal: AbortSignal): Promise<number> {
  const { headers } = await client.request({ method: "GET", path: "/version", verb: "get", signal });
  const time = Date.parse(headers.date ?? "");
  if (Number.isNaN(time)) throw new Error("Cannot read the time of the API server: its responses have no Date header");
  return time;
}
