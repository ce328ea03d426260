import { ArchiveError } from "../../archive/archive-error.ts";
import { inTurns } from "../../in-turns.ts";
import { isTenantId } from "../../names.ts";
import { archiveDigits, type SnapshotKey } from "../snapshot-key.ts";
import type { StoreEntry, StoreUse } from "../snapshot-store.ts";
import type { PageFilter, StorePage } from "../store-pages.ts";
import type { S3Bucket, S3Object } from "./s3-bucket.ts";
import { EMPTY_HEAD_BYTES, metadataOf, olderOf, type S3Heads, type S3Version, surelyNames } from "./s3-heads.ts";
import type { S3Layout } from "./s3-layout.ts";

/** The most heads listed for one page: most of them may be without archives, or of other workloads. */
const MOST_LISTED = 5000;
/** The least heads listed by one request, even if a page needs fewer. */
const LEAST_LISTED = 100;

/** Lists, page by page. The bucket's own lists have the names and times of keys; for anything more a head is read. */
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

  /** Heads, sorted by name, without the heads of keys whose archives were erased. */
  async function headPage(filter: PageFilter, signal: AbortSignal): Promise<StorePage<HeadObject>> {
    const { tenantId, workloadRef, limit } = filter;
    if (tenantId !== undefined && !isTenantId(tenantId)) return { items: [], next: undefined };
    const items: HeadObject[] = [];
    // With a filter on the workload, most heads are left out, so each request lists as many as possible.
    const most = workloadRef === undefined ? Math.min(Math.max(limit, LEAST_LISTED), 1000) : undefined;
    let next = filter.after;
    let at = next && layout.head(next);
    let listed = 0;
    // A page with any items is returned. If there are none, more is listed.
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

  /** When keys were last in use, as ISO 8601 times of the storage's clock. */
  async function usedAtOf(found: readonly HeadObject[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const names = found.map(({ key }) => layout.used(key)).sort();
    const wanted = new Set(names);
    const noted = new Map<string, string>();
    const [first, last] = [names[0], names.at(-1)];
    if (first !== undefined && last !== undefined) {
      // The list begins after the first name without its last letter, so the first name is in the list.
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
    const entryOf = (one: S3Version) => ({ sizeBytes: one.sizeBytes, usedAt, metadata: metadataOf(one) });
    const newest = (head?.versions ?? []).slice(0, 1).map((one) => ({ ...key, ...entryOf(one) }));
    if (!versions) return newest;
    const older = olderOf(head).map((one) => {
      return { ...key, version: archiveDigits(one.sha256), kept: one.kept, ...entryOf(one) };
    });
    return [...newest, ...older];
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
        // A head of another size has no archive or only checkpoints, still has archives to erase, or cannot be read.
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

/** Returns "wrong" for a head that cannot be parsed or belongs to another key, so that it does not make a list fail. */
export async function unlessWrong<T>(read: Promise<T>): Promise<T | "wrong"> {
  return await read.catch((error: unknown) => {
    if (error instanceof ArchiveError) return "wrong";
    throw error;
  });
}
