import { bytesOfEach, storedBytes, withinQuota } from "../../../../crds/snapshots/quota.ts";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { MostKept, SnapshotVersion, StoreEntry, StoreUsage } from "../../../../crds/snapshots/snapshot-store.ts";
import { tenantOrder } from "../../../../crds/snapshots/store-pages.ts";
import type { Turns } from "./turns.ts";
import type { VolumeTenants } from "./volume-tenants.ts";

const TENANTS_AT_ONCE = 64;

/** What archives take. */
export interface UsageCount {
  readonly archives: number;
  readonly bytes: number;
}

type Sized = Pick<StoreEntry, "sizeBytes" | "metadata">;

interface Wanted {
  /** Undefined where it is not known yet. */
  readonly sha256?: string | undefined;
  readonly sizeBytes: number;
  readonly older: readonly SnapshotVersion[];
  readonly most: MostKept;
  /** What the key's archives take now. */
  readonly present: UsageCount;
}

/** What the archives take, known without reading the volume again and again; of tenants nothing is remembered. */
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
  staying(key: SnapshotKey, wanted: Wanted): Promise<SnapshotVersion[]>;
  /** As `staying`, and sets aside what the key will take, which it returns too. */
  reserve(key: SnapshotKey, wanted: Wanted): Promise<{ staying: SnapshotVersion[]; reserved: UsageCount }>;
  /** Notes in the tenant's turn what a key takes now. */
  note(key: SnapshotKey, change: { from: UsageCount; to: UsageCount }): void;
}

interface Counts {
  total: UsageCount;
  readonly workloads: Map<string, UsageCount>;
}

export const NO_USAGE: UsageCount = { archives: 0, bytes: 0 };

export function createVolumeUsage(options: {
  tenants: Pick<VolumeTenants, "behind">;
  turns: Turns;
  /** All archives of a tenant, with older versions. */
  listTenant: (tenantId: string) => Promise<StoreEntry[]>;
}): VolumeUsage {
  const { tenants, turns, listTenant } = options;
  let counts = noCounts();
  let isKnown = false;
  /** The count that is under way, and whose archives it has by now. */
  let next: { readonly counts: Counts; isCounted(tenantId: string): boolean } | undefined;
  let counting: Promise<void> | undefined;

  async function countAll(): Promise<void> {
    let last: string | undefined;
    const left = new Set<string>();
    const found = noCounts();
    next = {
      counts: found,
      // One that came since is not among those that are left, and had nothing.
      isCounted: (tenantId) => !left.has(tenantId) && last !== undefined && tenantOrder(tenantId) <= tenantOrder(last),
    };
    try {
      for (;;) {
        const some = await tenants.behind(last, TENANTS_AT_ONCE);
        if (some.length === 0) break;
        last = some.at(-1);
        for (const tenantId of some) left.add(tenantId);
        await Promise.all(
          some.map((tenantId) =>
            turns.take(tenantId, async () => {
              // One whose folder cannot be read, which its own saves and the lists tell, counts as none.
              const entries = await listTenant(tenantId).catch(() => []);
              addEntries(found, entries);
              left.delete(tenantId);
            }),
          ),
        );
      }
      counts = found;
      isKnown = true;
    } finally {
      next = undefined;
    }
  }

  function count(): Promise<void> {
    counting ??= countAll().finally(() => {
      counting = undefined;
    });
    return counting;
  }

  async function counted(): Promise<void> {
    if (!isKnown) await count();
  }

  function note({ tenantId, workloadRef }: SnapshotKey, { from, to }: { from: UsageCount; to: UsageCount }): void {
    const more = { archives: to.archives - from.archives, bytes: to.bytes - from.bytes };
    add(counts, workloadRef, more);
    if (next?.isCounted(tenantId) === true) add(next.counts, workloadRef, more);
  }

  async function bytesOfTenant({ tenantId, workloadRef }: SnapshotKey, { tenantBytes }: MostKept): Promise<number> {
    if (tenantBytes === undefined) return 0;
    const others = (await listTenant(tenantId)).filter((one) => one.workloadRef !== workloadRef);
    return bytesOf(others).reduce((sum, bytes) => sum + bytes, 0);
  }

  async function stayingOf(key: SnapshotKey, { present, ...wanted }: Wanted): Promise<SnapshotVersion[]> {
    const ofTenant = await bytesOfTenant(key, wanted.most);
    const ofWorkload = (counts.workloads.get(key.workloadRef)?.bytes ?? 0) - present.bytes;
    return withinQuota(key, { ...wanted, bytesBefore: present.bytes, others: { ofTenant, ofWorkload } });
  }

  return {
    counted,
    recount: count,
    async all() {
      await counted();
      return { ...counts.total, workloads: Object.fromEntries(counts.workloads) };
    },
    staying: stayingOf,
    async reserve(key, wanted) {
      const staying = await stayingOf(key, wanted);
      const reserved = { archives: 1 + staying.length, bytes: storedBytes([wanted, ...staying]) };
      note(key, { from: wanted.present, to: reserved });
      return { staying, reserved };
    },
    note,
  };
}

/** What archives of one key take. */
export function usageOf(entries: readonly Sized[]): UsageCount {
  const bytes = storedBytes(entries.map(({ sizeBytes, metadata }) => ({ sizeBytes, sha256: metadata?.sha256 })));
  return { archives: entries.length, bytes };
}

/** Of each archive of a tenant what it takes beside those before it. */
function bytesOf(entries: readonly StoreEntry[]): number[] {
  return bytesOfEach(entries, ({ workloadRef, metadata }) => metadata && `${workloadRef} ${metadata.sha256}`);
}

function noCounts(): Counts {
  return { total: NO_USAGE, workloads: new Map() };
}

function addEntries(counts: Counts, entries: readonly StoreEntry[]): void {
  for (const [index, bytes] of bytesOf(entries).entries()) {
    add(counts, entries[index]?.workloadRef ?? "", { archives: 1, bytes });
  }
}

function add(counts: Counts, workloadRef: string, more: UsageCount): void {
  counts.total = sum(counts.total, more);
  const next = sum(counts.workloads.get(workloadRef) ?? NO_USAGE, more);
  if (next.archives === 0) counts.workloads.delete(workloadRef);
  else counts.workloads.set(workloadRef, next);
}

function sum(a: UsageCount, b: UsageCount): UsageCount {
  return { archives: a.archives + b.archives, bytes: a.bytes + b.bytes };
}
