import {
  bytesOfEach,
  checkCheckpointQuota,
  type OtherBytes,
  storedBytes,
  withinQuota,
} from "../../../../crds/snapshots/quota.ts";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { MostKept, SnapshotVersion, StoreEntry, StoreUsage } from "../../../../crds/snapshots/snapshot-store.ts";
import { tenantOrder } from "../../../../crds/snapshots/store-pages.ts";
import type { Turns } from "./turns.ts";
import { archivesIn, type StoredKey } from "./volume-state.ts";
import type { VolumeTenants } from "./volume-tenants.ts";

const TENANTS_AT_ONCE = 64;

/** The number and size of archives. */
export interface UsageCount {
  readonly archives: number;
  readonly bytes: number;
}

type Sized = Pick<StoreEntry, "sizeBytes" | "metadata">;

interface Wanted {
  /** Undefined if it is not known yet. */
  readonly sha256?: string | undefined;
  readonly sizeBytes: number;
  readonly older: readonly SnapshotVersion[];
  readonly most: MostKept;
  /** The present usage of the key. */
  readonly present: UsageCount;
}

/** The usage of all archives and of each workload, counted once and then updated. It stores nothing per tenant. */
export interface VolumeUsage {
  /** Counts all archives once. Do not wait for it in a tenant's turn, since it takes each tenant's turn. */
  counted(): Promise<void>;
  /** Counts them again, to include changes by other programs. */
  recount(): Promise<void>;
  all(): Promise<StoreUsage>;
  /**
   * The older versions that can stay beside an archive; call it in the tenant's turn. If there is no room, versions of
   * the history are dropped.
   *
   * @throws QuotaError if there is no room even without them
   */
  staying(key: SnapshotKey, wanted: Wanted): Promise<SnapshotVersion[]>;
  /** As `staying`, and reserves the future usage of the key. */
  reserve(key: SnapshotKey, wanted: Wanted): Promise<{ staying: SnapshotVersion[]; reserved: UsageCount }>;
  /**
   * Reserves the future usage of a key for a checkpoint beside the archives that stay.
   *
   * @throws QuotaError if there is no room beside all of these
   */
  reserveCheckpoint(
    key: SnapshotKey,
    wanted: Sized & { staying: readonly Sized[]; most: MostKept; present: UsageCount },
  ): Promise<UsageCount>;
  /** Notes the new usage of a key; call it in the tenant's turn. */
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
  /** The count in progress, and the tenants that it has counted. */
  let next: { readonly counts: Counts; isCounted(tenantId: string): boolean } | undefined;
  let counting: Promise<void> | undefined;

  async function countAll(): Promise<void> {
    let last: string | undefined;
    const left = new Set<string>();
    const found = noCounts();
    next = {
      counts: found,
      // A new tenant is not among those left to count, and had no archives.
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
              // An unreadable folder counts as empty. The tenant's saves and the lists report the error.
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

  async function othersOf(key: SnapshotKey, most: MostKept, present: UsageCount): Promise<OtherBytes> {
    const ofTenant = await bytesOfTenant(key, most);
    return { ofTenant, ofWorkload: (counts.workloads.get(key.workloadRef)?.bytes ?? 0) - present.bytes };
  }

  async function stayingOf(key: SnapshotKey, { present, ...wanted }: Wanted): Promise<SnapshotVersion[]> {
    const others = await othersOf(key, wanted.most, present);
    return withinQuota(key, { ...wanted, bytesBefore: present.bytes, others });
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
    async reserveCheckpoint(key, { staying, most, present, ...checkpoint }) {
      const others = await othersOf(key, most, present);
      const added = identified(checkpoint);
      const beside = staying.map(identified);
      checkCheckpointQuota(key, { ...added, staying: beside, bytesBefore: present.bytes, others, most });
      const reserved = usageOfAll([checkpoint, ...staying]);
      note(key, { from: present, to: reserved });
      return reserved;
    },
    note,
  };
}

/** The usage of one key's archives. */
export function usageOf(stored: StoredKey): UsageCount {
  return usageOfAll(archivesIn(stored));
}

function usageOfAll(archives: readonly Sized[]): UsageCount {
  return { archives: archives.length, bytes: storedBytes(archives.map(identified)) };
}

function identified({ sizeBytes, metadata }: Sized) {
  return { sizeBytes, sha256: metadata?.sha256 };
}

/** The additional bytes of each archive of a tenant: the same content is counted once. */
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
