import { ArchiveError } from "../../archive/archive-error.ts";
import { isTenantId } from "../../names.ts";
import { archiveDigits, type SnapshotKey } from "../snapshot-key.ts";
import type { StoreEntry, StoreUse } from "../snapshot-store.ts";
import type { PageFilter, StorePage } from "../store-pages.ts";
import { inTurns } from "./in-turns.ts";
import type { S3Bucket, S3Object } from "./s3-bucket.ts";
import { asOlder, EMPTY_HEAD_BYTES, metadataOf, type S3Heads, surelyNames } from "./s3-heads.ts";
import type { S3Layout } from "./s3-layout.ts";

/** Of lists of heads, for one page of ours: most of what they name may be erased, or another workload's. */
const MOST_LISTED = 5000;
/** Of heads, by one request, however few are wanted. */
const LEAST_LISTED = 100;

/** Pages of what is in object storage. Names and times of keys are in the bucket's own lists; a head is read for more. */
export interface S3Lists {
  list(filter: PageFilter & { readonly versions: boolean }, signal: AbortSignal): Promise<StorePage<StoreEntry>>;
  names(filter: PageFilter, signal: AbortSignal): Promise<StorePage<SnapshotKey>>;
  uses(filter: PageFilter, signal: AbortSignal): Promise<StorePage<StoreUse>>;
}

interface HeadObject {
  readonly key: SnapshotKey;
  readonly object: S3Object;
}

export function createS3Lists(options: { bucket: S3Bucket; layout: S3Layout; heads: S3Heads }): S3Lists {
  const { bucket, layout, heads } = options;

  /** Heads by name, without those of keys whose archives were erased. */
  async function headPage(filter: PageFilter, signal: AbortSignal): Promise<StorePage<HeadObject>> {
    const { tenantId, workloadRef, limit } = filter;
    if (tenantId !== undefined && !isTenantId(tenantId)) return { items: [], next: undefined };
    const items: HeadObject[] = [];
    // Where little is left out, as many as are wanted are enough. Of erased ones there may be many in a row.
    const most = workloadRef === undefined ? Math.min(Math.max(limit, LEAST_LISTED), 1000) : undefined;
    let next = filter.after;
    let at = next && layout.head(next);
    let listed = 0;
    // A page that has some is good, however many; one that had none would say nothing.
    while (items.length === 0 && (listed < MOST_LISTED || next === undefined)) {
      const page = await bucket.page(layout.heads(tenantId), { after: at, most, signal });
      for (const object of page.objects) {
        const key = layout.keyOfHead(object.key);
        if (key === undefined) continue;
        const isWanted = workloadRef === undefined || key.workloadRef === workloadRef;
        if (isWanted && object.sizeBytes !== EMPTY_HEAD_BYTES) {
          if (items.length === limit) return { items, next };
          items.push({ key, object });
        }
        next = key;
      }
      if (page.next === undefined) return { items, next: undefined };
      at = page.next;
      listed += page.objects.length;
    }
    return { items, next };
  }

  /** ISO 8601 times at which keys were last in use, by the storage's clock. */
  async function usedAtOf(found: readonly HeadObject[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const names = found.map(({ key }) => layout.used(key)).sort();
    const wanted = new Set(names);
    const noted = new Map<string, string>();
    const [first, last] = [names[0], names.at(-1)];
    if (first !== undefined && last !== undefined) {
      // What comes behind all but its last letter begins with it at the latest.
      for await (const objects of bucket.pages(layout.usedUnder(), { after: first.slice(0, -1), signal })) {
        for (const { key, at } of objects) if (wanted.has(key)) noted.set(key, at);
        if ((objects.at(-1)?.key ?? "") >= last) break;
      }
    }
    const latest = ({ key, object: { at } }: HeadObject): string => {
      const used = noted.get(layout.used(key)) ?? "";
      return used > at ? used : at;
    };
    return new Map(found.map((one) => [one.object.key, latest(one)]));
  }

  async function entriesOf(
    { key, object }: HeadObject,
    { usedAt, versions, signal }: { usedAt: string; versions: boolean; signal: AbortSignal },
  ): Promise<StoreEntry[]> {
    const head = await unlessWrong(heads.listed(key, object.etag, signal));
    if (head === "wrong") return [{ ...key, sizeBytes: 0, usedAt, metadata: undefined }];
    return (head?.versions ?? []).slice(0, versions ? undefined : 1).map((version, index) => ({
      ...key,
      ...(index > 0 && { version: archiveDigits(version.sha256), kept: asOlder(version).kept }),
      sizeBytes: version.sizeBytes,
      usedAt,
      metadata: metadataOf(version),
    }));
  }

  return {
    async list({ versions, ...filter }, signal) {
      const { items, next } = await headPage(filter, signal);
      const used = await usedAtOf(items, signal);
      const found = await inTurns(items, (one) =>
        entriesOf(one, { usedAt: used.get(one.object.key) ?? "", versions, signal }),
      );
      return { items: found.flat(), next };
    },

    async names(filter, signal) {
      const { items, next } = await headPage(filter, signal);
      const named = await inTurns(items, async ({ key, object }) => {
        // Another has nothing, or not yet erased what it had, or cannot be read.
        if (surelyNames(object.sizeBytes)) return [key];
        const head = await unlessWrong(heads.listed(key, object.etag, signal));
        return head === "wrong" || (head?.versions ?? []).length > 0 ? [key] : [];
      });
      return { items: named.flat(), next };
    },

    async uses(filter, signal) {
      const { items, next } = await headPage(filter, signal);
      const used = await usedAtOf(items, signal);
      return { items: items.map(({ key, object }) => ({ ...key, usedAt: used.get(object.key) ?? object.at })), next };
    },
  };
}

/** One head that cannot be read, or is another key's, fails no list. */
export async function unlessWrong<T>(read: Promise<T>): Promise<T | "wrong"> {
  return await read.catch((error: unknown) => {
    if (error instanceof ArchiveError) return "wrong";
    throw error;
  });
}
