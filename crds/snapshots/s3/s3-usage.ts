import type { Clock } from "../../client/clock.ts";
import { orAborted } from "../../waits.ts";
import { bytesOfEach, type OtherBytes } from "../quota.ts";
import type { SnapshotKey } from "../snapshot-key.ts";
import type { MostKept, StoreEntry, StoreUsage } from "../snapshot-store.ts";

/** What archives take, as a listing has it that is some minutes old, and what this process has committed since. */
export interface S3Usage {
  all(signal: AbortSignal): Promise<StoreUsage>;
  /**
   * What archives of other keys take. The tenant's are as they are now; the workload's may be of some minutes ago.
   * Nothing is listed for a limit that there is not.
   */
  others(key: SnapshotKey, most: MostKept, signal: AbortSignal): Promise<OtherBytes>;
  /** What a key takes from now on. */
  note(key: SnapshotKey, archives: readonly { readonly sha256: string; readonly sizeBytes: number }[]): void;
}

/** What an archive takes: none where it is the newest and an older version at once, which is one object. */
type Sizes = Pick<StoreEntry, "tenantId" | "workloadRef" | "sizeBytes">;
type ListArchives = (tenantId: string | undefined, signal: AbortSignal) => Promise<StoreEntry[]>;

const KEPT_MS = 5 * 60_000;
const LIST_LIMIT_MS = 120_000;

/** @param options.list all archives with their versions, or one tenant's */
export function createS3Usage({ list, clock }: { list: ListArchives; clock: Clock }): S3Usage {
  let kept: { readonly at: number; readonly keys: Map<string, Sizes[]> } | undefined;
  let listing: Promise<Map<string, Sizes[]>> | undefined;
  // What is committed while a listing is under way may be missing in it.
  const noted = new Map<string, Sizes[]>();

  async function listAll(): Promise<Map<string, Sizes[]>> {
    noted.clear();
    const keys = new Map<string, Sizes[]>();
    for (const sizes of sizesOf(await list(undefined, AbortSignal.timeout(LIST_LIMIT_MS)))) {
      const name = nameOf(sizes);
      keys.set(name, [...(keys.get(name) ?? []), sizes]);
    }
    for (const [name, sizes] of noted) keys.set(name, sizes);
    kept = { at: clock.now(), keys };
    return keys;
  }

  async function current(signal: AbortSignal): Promise<Map<string, Sizes[]>> {
    if (kept !== undefined && clock.now() - kept.at < KEPT_MS) return kept.keys;
    listing ??= listAll().finally(() => {
      listing = undefined;
    });
    return await orAborted(listing, signal);
  }

  return {
    all: async (signal) => usageOf([...(await current(signal)).values()].flat()),

    async others(key, { tenantBytes, workloadBytes }, signal) {
      const { tenantId, workloadRef } = key;
      const isOther = (one: SnapshotKey): boolean => one.tenantId !== tenantId || one.workloadRef !== workloadRef;
      const [ofTenant, all] = await Promise.all([
        tenantBytes === undefined ? [] : list(tenantId, signal).then(sizesOf),
        workloadBytes === undefined ? [] : current(signal).then((keys) => [...keys.values()].flat()),
      ]);
      const ofWorkload = all.filter((one) => one.workloadRef === workloadRef);
      return { ofTenant: sum(ofTenant.filter(isOther)), ofWorkload: sum(ofWorkload.filter(isOther)) };
    },

    note(key, archives) {
      const { tenantId, workloadRef } = key;
      const now = bytesOfEach(archives, ({ sha256 }) => sha256).map((sizeBytes) => ({
        ...{ tenantId, workloadRef, sizeBytes },
      }));
      noted.set(nameOf(key), now);
      kept?.keys.set(nameOf(key), now);
    },
  };
}

function nameOf({ tenantId, workloadRef }: SnapshotKey): string {
  return `${tenantId}/${workloadRef}`;
}

function sizesOf(entries: readonly StoreEntry[]): Sizes[] {
  const bytes = bytesOfEach(entries, (entry) => entry.metadata && `${nameOf(entry)} ${entry.metadata.sha256}`);
  return entries.map(({ tenantId, workloadRef }, index) => ({ tenantId, workloadRef, sizeBytes: bytes[index] ?? 0 }));
}

function sum(sizes: readonly { readonly sizeBytes: number }[]): number {
  return sizes.reduce((total, { sizeBytes }) => total + sizeBytes, 0);
}

/** What the archives of a list take, which has to have the versions too. */
function usageOf(entries: readonly Pick<StoreEntry, "workloadRef" | "sizeBytes">[]): StoreUsage {
  const workloads: Record<string, { archives: number; bytes: number }> = {};
  let bytes = 0;
  for (const { workloadRef, sizeBytes } of entries) {
    const { archives, bytes: before } = workloads[workloadRef] ?? { archives: 0, bytes: 0 };
    workloads[workloadRef] = { archives: archives + 1, bytes: before + sizeBytes };
    bytes += sizeBytes;
  }
  return { archives: entries.length, bytes, workloads };
}
