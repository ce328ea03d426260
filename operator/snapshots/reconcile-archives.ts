import { claimKey } from "../../crds/claims/claim-key.ts";
import { claims } from "../../crds/kinds.ts";
import { label } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";
import type { ReconcileResult } from "../queue.ts";
import { hasStore } from "./has-store.ts";
import type { ListedSnapshot } from "./snapshots.ts";

const HOUR_MS = 3_600_000;
const MOST_AT_ONCE = 500;

/**
 * Once an hour deletes what interrupted saves left in the store, and, where `TENANCY_SNAPSHOT_TTL` is set,
 * the archives that nobody has used for so long.
 *
 * An archive is in use while its tenant has a claim on the workload, which is noted in the store again and again, so
 * that the time counts from the end of the last claim. Since the last note may be missing, a tenth of the time, at most
 * an hour, is added. The clocks of the operator, of the API server and of the store all have to agree that the time is
 * over.
 */
export async function reconcileArchives(context: OperatorContext, signal: AbortSignal): Promise<ReconcileResult> {
  const { snapshots, config, log } = context;
  if (!hasStore(context)) return { requeueAfterMs: HOUR_MS };
  await snapshots.tidy(signal);
  const { ttlMs } = config.snapshots;
  if (ttlMs === undefined) return { requeueAfterMs: HOUR_MS };

  const now = context.serverNow();
  const graceMs = Math.min(HOUR_MS, ttlMs / 10);
  const listed = await snapshots.list(signal);
  const inUse = listed.filter((snapshot) => isInUse(snapshot, context));
  const stale = inUse.filter(({ usedAt }) => Date.parse(usedAt) + graceMs / 2 < now);
  for (let from = 0; from < stale.length; from += MOST_AT_ONCE) {
    await snapshots.touch(stale.slice(from, from + MOST_AT_ONCE), signal);
  }

  const endOf = ({ usedAt }: ListedSnapshot): number => Date.parse(usedAt) + ttlMs + graceMs;
  const unused = listed.filter((snapshot) => !inUse.includes(snapshot));
  const due = unused.filter((snapshot) => endOf(snapshot) <= now);
  const serverNow = due.length === 0 ? now : await apiServerTime(context, signal);
  for (const snapshot of due) {
    const { tenantId, workloadRef, usedAt } = snapshot;
    if (endOf(snapshot) > serverNow || (await hasClaim(snapshot, context, signal))) continue;
    const isDeleted = await snapshots.delete(snapshot, { unusedForMs: ttlMs + graceMs, signal });
    if (isDeleted) {
      log.info({ tenantId, workloadRef, usedAt }, "archive deleted, it was not used for TENANCY_SNAPSHOT_TTL");
    }
  }
  const nextMs = Math.min(...unused.map(endOf).filter((end) => end > now)) - now;
  return { requeueAfterMs: Math.max(1000, Math.min(HOUR_MS, inUse.length > 0 ? graceMs / 2 : HOUR_MS, nextMs)) };
}

function isInUse(key: ListedSnapshot, { informers }: OperatorContext): boolean {
  return informers.claims.store.by("key", claimKey(key)).size > 0;
}

/** By the API server's word and the cache's: one that was made with kubectl a moment ago has no label yet. */
async function hasClaim(snapshot: ListedSnapshot, context: OperatorContext, signal: AbortSignal): Promise<boolean> {
  const { tenantId, workloadRef } = snapshot;
  const labelSelector = `${label.tenant}=${tenantId}`;
  const { items } = await context.client.list(claims, { namespace: context.config.namespace, labelSelector, signal });
  return items.some(({ spec }) => spec.workloadRef === workloadRef) || isInUse(snapshot, context);
}

/** What time it is on the API server. */
async function apiServerTime({ client }: OperatorContext, signal: AbortSignal): Promise<number> {
  const { headers } = await client.request({ method: "GET", path: "/version", verb: "get", signal });
  const time = Date.parse(headers.date ?? "");
  if (Number.isNaN(time)) throw new Error("Cannot tell the time of the API server: its answers carry no date");
  return time;
}
