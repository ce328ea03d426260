import type { Clock } from "../../client/clock.ts";
import { orAborted } from "../../waits.ts";
import { bytesOfEach, type OtherBytes } from "../quota.ts";
import type { SnapshotKey } from "../snapshot-key.ts";
import type { MostKept, StoreEntry, StoreUsage } from "../snapshot-store.ts";
import type { S3Bucket } from "./s3-bucket.ts";
import type { S3Layout } from "./s3-layout.ts";

/** The space that archives take: from a listing that may be some minutes old, plus this process's commits since. */
export interface S3Usage {
  all(signal: AbortSignal): Promise<StoreUsage>;
  /**
   * The space that archives of other keys take. The tenant's value is current; the workload's may be some minutes old.
   * Without a limit, nothing is listed.
   *
   * @param options.ownBytes the space that the key's own archives take now
   */
  others(key: SnapshotKey, options: { most: MostKept; ownBytes: number; signal: AbortSignal }): Promise<OtherBytes>;
  /** Adds the change of a commit of this process. */
  note(key: SnapshotKey, change: { from: readonly StoredArchive[]; to: readonly StoredArchive[] }): void;
  /** While the work runs, the archive of this name is not counted: `note` counts it when its head names it. */
  whileWriting<T>(name: string, work: () => Promise<T>): Promise<T>;
}

interface StoredArchive {
  readonly blob: string;
  readonly sizeBytes: number;
}

interface Counts {
  archives: number;
  bytes: number;
  readonly workloads: Map<string, { archives: number; bytes: number }>;
}

const KEPT_MS = 5 * 60_000;
/** A listing is kept for at least this many times its duration. */
const KEPT_TIMES = 10;
const LIST_LIMIT_MS = 600_000;

/**
 * Counts the archives in the bucket's own list. No head is read, and no key is kept in memory. An archive that no head
 * names counts until it is erased.
 *
 * @param options.listTenant lists all archives of a tenant with their versions
 */
export function createS3Usage(options: {
  bucket: S3Bucket;
  layout: S3Layout;
  listTenant: (tenantId: string, signal: AbortSignal) => Promise<StoreEntry[]>;
  clock: Clock;
}): S3Usage {
  const { bucket, layout, listTenant, clock } = options;
  let kept: { readonly until: number; readonly counts: Counts } | undefined;
  let listing: Promise<Counts> | undefined;
  /** The listing in progress, and the last name it has reached. */
  let next: { readonly counts: Counts; last: string } | undefined;
  const writing = new Set<string>();

  async function listAll(): Promise<Counts> {
    const began = clock.now();
    const reached = { counts: noCounts(), last: "" };
    next = reached;
    try {
      const signal = AbortSignal.timeout(LIST_LIMIT_MS);
      for await (const objects of bucket.pages(layout.archives, { signal })) {
        for (const { key: name, sizeBytes } of objects) {
          const archive = layout.keyOfArchive(name);
          if (archive === undefined || writing.has(name)) continue;
          add(reached.counts, archive.key.workloadRef, { archives: 1, bytes: sizeBytes });
        }
        reached.last = objects.at(-1)?.key ?? reached.last;
      }
      const now = clock.now();
      kept = { until: now + Math.max(KEPT_MS, KEPT_TIMES * (now - began)), counts: reached.counts };
      return reached.counts;
    } finally {
      next = undefined;
    }
  }

  async function current(signal: AbortSignal): Promise<Counts> {
    if (kept !== undefined && clock.now() < kept.until) return kept.counts;
    listing ??= listAll().finally(() => {
      listing = undefined;
    });
    return await orAborted(listing, signal);
  }

  async function bytesOfTenant({ tenantId, workloadRef }: SnapshotKey, signal: AbortSignal): Promise<number> {
    const others = (await listTenant(tenantId, signal)).filter((one) => one.workloadRef !== workloadRef);
    const bytes = bytesOfEach(others, (one) => one.metadata && `${one.workloadRef} ${one.metadata.sha256}`);
    return bytes.reduce((sum, each) => sum + each, 0);
  }

  return {
    async all(signal) {
      const { archives, bytes, workloads } = await current(signal);
      return { archives, bytes, workloads: Object.fromEntries(workloads) };
    },

    async others(key, { most: { tenantBytes, workloadBytes }, ownBytes, signal }) {
      const [ofTenant, counts] = await Promise.all([
        tenantBytes === undefined ? 0 : bytesOfTenant(key, signal),
        workloadBytes === undefined ? undefined : current(signal),
      ]);
      const ofWorkload = Math.max(0, (counts?.workloads.get(key.workloadRef)?.bytes ?? 0) - ownBytes);
      return { ofTenant, ofWorkload };
    },

    note(key, { from, to }) {
      const [before, after] = [from, to].map(takenBy);
      if (before === undefined || after === undefined) return;
      const more = { archives: after.archives - before.archives, bytes: after.bytes - before.bytes };
      if (kept !== undefined) add(kept.counts, key.workloadRef, more);
      // If the listing has not reached the key yet, it will count the change itself.
      if (next !== undefined && layout.archive(key, "") <= next.last) add(next.counts, key.workloadRef, more);
    },

    async whileWriting(name, work) {
      writing.add(name);
      try {
        return await work();
      } finally {
        writing.delete(name);
      }
    },
  };
}

function noCounts(): Counts {
  return { archives: 0, bytes: 0, workloads: new Map() };
}

function add(counts: Counts, workloadRef: string, more: { archives: number; bytes: number }): void {
  counts.archives += more.archives;
  counts.bytes += more.bytes;
  const { archives, bytes } = counts.workloads.get(workloadRef) ?? { archives: 0, bytes: 0 };
  if (archives + more.archives === 0) counts.workloads.delete(workloadRef);
  else counts.workloads.set(workloadRef, { archives: archives + more.archives, bytes: bytes + more.bytes });
}

/** Versions that name the same object count once. */
function takenBy(versions: readonly StoredArchive[]): { archives: number; bytes: number } {
  const sizes = new Map(versions.map(({ blob, sizeBytes }) => [blob, sizeBytes]));
  return { archives: sizes.size, bytes: [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0) };
}
