import { readdir } from "node:fs/promises";
import { isTenantId } from "../../../crds/names.ts";
import { bytesOfEach, storedBytes, withinQuota } from "../../../crds/snapshots/quota.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { MostKept, SnapshotVersion, StoreEntry, StoreUsage } from "../../../crds/snapshots/snapshot-store.ts";
import type { Turns } from "./turns.ts";

const TENANTS_AT_ONCE = 64;

interface Count {
  readonly archives: number;
  readonly bytes: number;
}

interface Wanted {
  /** Undefined where it is not known yet. */
  readonly sha256?: string | undefined;
  readonly sizeBytes: number;
  readonly older: readonly SnapshotVersion[];
  readonly most: MostKept;
}

/** What the archives take, known without reading the volume again and again. */
export interface VolumeUsage {
  /** Counts all archives, where that was not done. Not to be waited for in a tenant's turn, since it takes each. */
  counted(): Promise<void>;
  /** Counts them again, for what others have changed. */
  recount(): Promise<void>;
  all(): Promise<StoreUsage>;
  /**
   * Finds out which older versions can stay beside an archive, in its tenant's turn: those that are history go where
   * there is no room.
   *
   * @throws QuotaError where there is no room without them either
   */
  staying(key: SnapshotKey, wanted: Wanted): SnapshotVersion[];
  /** As `staying`, and sets aside what the key will take. */
  reserve(key: SnapshotKey, wanted: Wanted): SnapshotVersion[];
  /** Notes what a key takes now. */
  note(key: SnapshotKey, entries: readonly Pick<StoreEntry, "sizeBytes" | "metadata">[]): void;
}

export function createVolumeUsage(options: {
  root: string;
  turns: Turns;
  /** All archives of a tenant, with older versions. */
  listTenant: (tenantId: string) => Promise<StoreEntry[]>;
}): VolumeUsage {
  const { root, turns, listTenant } = options;
  const keys = new Map<string, Map<string, Count>>();
  const tenants = new Map<string, Count>();
  const workloads = new Map<string, Count>();
  let total: Count = { archives: 0, bytes: 0 };
  let counting: Promise<void> | undefined;

  function set({ tenantId, workloadRef }: SnapshotKey, count: Count): void {
    const ofTenant = keys.get(tenantId) ?? new Map<string, Count>();
    const before = ofTenant.get(workloadRef) ?? { archives: 0, bytes: 0 };
    const more = { archives: count.archives - before.archives, bytes: count.bytes - before.bytes };
    if (count.archives === 0) ofTenant.delete(workloadRef);
    else ofTenant.set(workloadRef, count);
    if (ofTenant.size === 0) keys.delete(tenantId);
    else keys.set(tenantId, ofTenant);
    add(tenants, tenantId, more);
    add(workloads, workloadRef, more);
    total = sum(total, more);
  }

  async function countAll(): Promise<void> {
    const found = new Set([...(await readdir(root)).filter(isTenantId), ...keys.keys()]);
    const all = [...found];
    for (let from = 0; from < all.length; from += TENANTS_AT_ONCE) {
      const some = all.slice(from, from + TENANTS_AT_ONCE);
      await Promise.all(some.map((tenantId) => turns.take(tenantId, () => countTenant(tenantId)).catch(isNotCounted)));
    }
  }

  async function countTenant(tenantId: string): Promise<void> {
    const counts = new Map<string, Count>();
    for (const workloadRef of keys.get(tenantId)?.keys() ?? []) counts.set(workloadRef, { archives: 0, bytes: 0 });
    const entries = await listTenant(tenantId);
    const bytes = bytesOfEach(entries, ({ workloadRef, metadata }) => metadata && `${workloadRef} ${metadata.sha256}`);
    for (const [index, { workloadRef }] of entries.entries()) {
      add(counts, workloadRef, { archives: 1, bytes: bytes[index] ?? 0 }, { keepsNone: true });
    }
    for (const [workloadRef, count] of counts) set({ tenantId, workloadRef }, count);
  }

  function counted(): Promise<void> {
    counting ??= countAll().catch((error: unknown) => {
      counting = undefined;
      throw error;
    });
    return counting;
  }

  function stayingOf(key: SnapshotKey, wanted: Wanted): SnapshotVersion[] {
    const { tenantId, workloadRef } = key;
    const bytesBefore = keys.get(tenantId)?.get(workloadRef)?.bytes ?? 0;
    const ofTenant = (tenants.get(tenantId)?.bytes ?? 0) - bytesBefore;
    const ofWorkload = (workloads.get(workloadRef)?.bytes ?? 0) - bytesBefore;
    return withinQuota(key, { ...wanted, bytesBefore, others: { ofTenant, ofWorkload } });
  }

  return {
    counted,
    recount() {
      counting = undefined;
      return counted();
    },
    async all() {
      await counted();
      return { ...total, workloads: Object.fromEntries(workloads) };
    },
    staying: stayingOf,
    reserve(key, wanted) {
      const staying = stayingOf(key, wanted);
      set(key, { archives: 1 + staying.length, bytes: storedBytes([wanted, ...staying]) });
      return staying;
    },
    note(key, entries) {
      const bytes = storedBytes(entries.map(({ sizeBytes, metadata }) => ({ sizeBytes, sha256: metadata?.sha256 })));
      set(key, { archives: entries.length, bytes });
    },
  };
}

function isNotCounted(): void {
  // One tenant's folder that cannot be read, which its own saves and the lists tell, keeps the others from no save.
}

function sum(a: Count, b: Count): Count {
  return { archives: a.archives + b.archives, bytes: a.bytes + b.bytes };
}

function add(counts: Map<string, Count>, name: string, more: Count, { keepsNone = false } = {}): void {
  const next = sum(counts.get(name) ?? { archives: 0, bytes: 0 }, more);
  if (next.archives === 0 && !keepsNone) counts.delete(name);
  else counts.set(name, next);
}
