import type { OperatorContext } from "../context.ts";
import type { ReconcileResult } from "../queue.ts";

const HOUR_MS = 3_600_000;

/**
 * Once an hour deletes what interrupted saves left on the snapshots volume, and, where `TENANCY_SNAPSHOT_TTL` is set, the archives that
 * are older; never that of a tenant who has a claim on the workload.
 */
export async function tendArchives(context: OperatorContext, signal: AbortSignal): Promise<ReconcileResult> {
  const { informers, snapshots, config, log } = context;
  if (informers.helperPods.store.size === 0) return { requeueAfterMs: HOUR_MS };
  await snapshots.tidy(signal);
  const { ttlMs } = config.snapshots;
  if (ttlMs === undefined) return { requeueAfterMs: HOUR_MS };

  const now = Date.now();
  let oldest = now;
  for (const snapshot of await snapshots.list(signal)) {
    const { tenantId, workloadRef, createdAt } = snapshot;
    if (Date.parse(createdAt) + ttlMs > now) {
      oldest = Math.min(oldest, Date.parse(createdAt));
    } else if (informers.claims.store.by("pair", `${tenantId}/${workloadRef}`).size === 0) {
      const isDeleted = await snapshots.delete(snapshot, signal);
      if (isDeleted)
        log.info({ tenantId, workloadRef, createdAt }, "archive deleted, it is older than TENANCY_SNAPSHOT_TTL");
    }
  }
  return { requeueAfterMs: Math.max(1000, Math.min(HOUR_MS, oldest + ttlMs - now)) };
}
