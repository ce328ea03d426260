import { bytesOfEach } from "../../../crds/snapshots/quota.ts";
import type { StoreEntry } from "../../../crds/snapshots/snapshot-store.ts";
import { eachInPages, type PageFilter } from "../../../crds/snapshots/store-pages.ts";
import { startDeadline } from "../../../crds/waits.ts";
import { askStore, type SnapshotServices, storeState } from "./store.ts";

/** Storage used by all snapshots with their older versions. */
export interface SnapshotTotals {
  readonly archives: number;
  readonly bytes: number;
}

/** A tenant's saved files with their older versions. @throws HttpError as {@link askStore} does */
export async function entriesOfTenant(
  tenantId: string,
  services: SnapshotServices,
  clientGone: AbortSignal | undefined,
): Promise<StoreEntry[]> {
  if ((await storeState(services)) === "none") return [];
  return await askStore(
    async ({ archives }, call) => {
      const entries: StoreEntry[] = [];
      const read = (page: Pick<PageFilter, "after" | "limit">) =>
        archives.list({ ...page, tenantId, versions: true }, call);
      for await (const entry of eachInPages(read)) entries.push(entry);
      return entries;
    },
    { ...services, clientGone },
  );
}

/** The bytes that all archives of one tenant take. */
export function bytesOf(entries: readonly StoreEntry[]): number {
  const bytes = bytesOfEach(entries, (one) => one.metadata && `${one.workloadRef} ${one.metadata.sha256}`);
  return bytes.reduce((sum, each) => sum + each, 0);
}

const KEPT_MS = 60_000;
const AGAIN_MS = 10_000;
const WAIT_MS = 1000;

/**
 * Reports the storage used by snapshots. The value is at most a minute old while it is read often; an older value is
 * returned once more while a new one is fetched. Undefined if unknown; returns after at most a second.
 */
export function createSnapshotTotals(services: SnapshotServices): () => Promise<SnapshotTotals | undefined> {
  const { clock, log } = services;
  let last: { readonly totals: SnapshotTotals | undefined; readonly until: number } | undefined;
  let asking: Promise<SnapshotTotals | undefined> | undefined;

  async function ask(): Promise<SnapshotTotals | undefined> {
    let totals: SnapshotTotals | undefined;
    try {
      if ((await storeState(services)) === "none") totals = { archives: 0, bytes: 0 };
      else {
        const used = await askStore(({ archives }, call) => archives.usage(call), {
          ...services,
          clientGone: undefined,
        });
        totals = { archives: used.archives, bytes: used.bytes };
      }
    } catch (error) {
      log.debug({ error }, "cannot read the usage of snapshots");
    }
    last = { totals, until: clock.now() + (totals === undefined ? AGAIN_MS : KEPT_MS) };
    return totals;
  }

  return async () => {
    if (last !== undefined && clock.now() < last.until) return last.totals;
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    if (last?.totals !== undefined) return last.totals;
    const limit = startDeadline(WAIT_MS, clock);
    try {
      const late = new Promise<undefined>((resolve) => {
        limit.signal.addEventListener("abort", () => resolve(undefined), { once: true });
      });
      return await Promise.race([asking, late]);
    } finally {
      limit.close();
    }
  };
}
