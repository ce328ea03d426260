import { ArchiveError } from "../archive/archive-error.ts";
import { relationOf } from "./lineage.ts";
import type { SnapshotKey } from "./snapshot-key.ts";
import type { SnapshotMetadata } from "./snapshot-metadata.ts";
import { type KeptAs, type SnapshotStore, type StoreCall, StoreConflict } from "./snapshot-store.ts";
import { compareKeys, eachInPages } from "./store-pages.ts";

/** What became of one tenant and workload. */
export type CopyOutcome =
  | { readonly kind: "copied"; readonly archives: number; readonly bytes: number }
  /** All of it was there. */
  | { readonly kind: "present" }
  /** The target has archives that the source has not: it was used since, and is left as it is. */
  | { readonly kind: "differs" }
  /** The source has none any more, the target has: erased since an earlier copy, or made by the target's own use. */
  | { readonly kind: "surplus" }
  /** That was deleted in the target. */
  | { readonly kind: "deleted" }
  /** That was to be deleted, and stays: another key differs, so that the source may be the older of the two. */
  | { readonly kind: "withheld" }
  /** Not copied, and the target is unchanged: the files changed during the copy, or do not match what was saved. */
  | { readonly kind: "failed"; readonly because: string };

interface Stores {
  readonly from: SnapshotStore;
  readonly to: SnapshotStore;
}

export interface CopyCall extends StoreCall {
  /**
   * Whether archives missing in the source are deleted in the target, which must not be in use. Nothing is deleted if
   * the target was used since. @default false
   */
  readonly deletes?: boolean | undefined;
  /** Called with how many tenants and workloads the source has. */
  readonly onBegin?: ((keys: number) => void) | undefined;
  /** Called with what became of each. */
  readonly onKey: (key: SnapshotKey, outcome: CopyOutcome) => void;
}

const AT_ONCE = 4;

/**
 * Copies all archives of a store to another, with their versions and what is recorded of them, and checks each by its
 * SHA-256 on its way. What is there is not sent again, so that a copy which was ended goes on where it was, and a later
 * one brings what was saved since.
 *
 * @param call.timeoutMs for each archive
 * @throws what a store fails with, at the first failure that is not of one key alone
 */
export async function copyStore({ from, to }: Stores, call: CopyCall): Promise<void> {
  const { onBegin, onKey, deletes = false } = call;
  const each = (store: SnapshotStore) => eachInPages((page) => store.list({ ...page, versions: false }, call));
  let found = 0;
  for await (const _ of eachInPages((page) => from.names(page, call))) found += 1;
  // A volume that is not mounted has none either.
  if (deletes && found === 0) throw new Error("Cannot delete what the source has not: it has nothing at all");
  onBegin?.(found);

  // A source that was left long ago has none of the tenants that came to the target since.
  let mayDelete = deletes;
  async function report(key: SnapshotKey, work: () => Promise<CopyOutcome>): Promise<void> {
    try {
      const outcome = await work();
      if (outcome.kind === "differs") mayDelete = false;
      onKey(key, outcome);
    } catch (error) {
      if (!(error instanceof ArchiveError || error instanceof StoreConflict)) throw error;
      onKey(key, { kind: "failed", because: error.message });
    }
  }

  const rest = each(from);
  let failure: { readonly error: unknown } | undefined;
  async function work(): Promise<void> {
    for await (const { tenantId, workloadRef, metadata } of rest) {
      if (failure !== undefined) return;
      const key = { tenantId, workloadRef };
      const unrecorded = { kind: "failed", because: "nothing that is recorded fits the archive" } as const;
      await report(key, async () => (metadata === undefined ? unrecorded : await copyKey({ from, to, key }, call)));
    }
  }
  const workers = Array.from({ length: AT_ONCE }, () =>
    work().catch((error: unknown) => {
      failure ??= { error };
    }),
  );
  await Promise.all(workers);
  if (failure !== undefined) throw failure.error;

  for await (const key of onlyInFirst(each(to), each(from))) {
    const kind = deletes ? "withheld" : "surplus";
    await report(key, async () => (mayDelete ? await deleteSurplus({ from, to, key }, call) : { kind }));
  }
}

/** The keys of a list which another, in the same order, has not. */
async function* onlyInFirst(
  first: AsyncIterable<SnapshotKey>,
  second: AsyncIterable<SnapshotKey>,
): AsyncGenerator<SnapshotKey> {
  const others = second[Symbol.asyncIterator]();
  let other = await others.next();
  for await (const { tenantId, workloadRef } of first) {
    const key = { tenantId, workloadRef };
    while (other.done !== true && compareKeys(other.value, key) < 0) other = await others.next();
    if (other.done === true || compareKeys(other.value, key) > 0) yield key;
  }
}

async function copyKey({ from, to, key }: Stores & { key: SnapshotKey }, call: StoreCall): Promise<CopyOutcome> {
  const { newest, versions } = await from.look(key, call);
  if (newest === undefined) throw new StoreConflict("it was deleted in the meantime");
  const wanted: readonly (SnapshotMetadata & { readonly kept?: KeptAs })[] = [...[...versions].reverse(), newest];
  const present = await to.look(key, call);
  const there = present.newest === undefined ? [] : [...[...present.versions].reverse(), present.newest];
  const begin = whereToBegin(wanted, there);
  if (typeof begin === "string") return { kind: begin };
  let { revision } = present;
  let { keep } = begin;
  let bytes = 0;
  const left = wanted.slice(begin.index);
  for (const { sha256, sizeBytes, tenantId: _, workloadRef: __, kept, ...description } of left) {
    const opened = await from.open(key, sha256, call);
    if (opened === undefined) throw new StoreConflict("another archive has replaced it in the meantime");
    try {
      const most = { history: wanted.length, replaced: wanted.length + there.length };
      const describe = () => ({ ...description, copied: true }) as const;
      const put = { ...call, replaces: revision, keep, most, describe };
      ({ revision } = await to.put(key, opened.content, put));
    } finally {
      opened.close();
    }
    keep = kept;
    bytes += sizeBytes;
  }
  return { kind: "copied", archives: left.length, bytes };
}

interface Begin {
  /** Of the first archive that is wanted and not there. */
  readonly index: number;
  /** As what the target's newest stays. */
  readonly keep: KeptAs | undefined;
}

/** @param wanted the oldest first, as `there` is */
function whereToBegin(
  wanted: readonly (SnapshotMetadata & { readonly kept?: KeptAs })[],
  there: readonly SnapshotMetadata[],
): Begin | "present" | "differs" {
  const [newest, present] = [wanted.at(-1), there.at(-1)];
  if (newest === undefined || present === undefined) return { index: 0, keep: undefined };
  // What a copy has made that was ended, or an earlier one.
  if (there.every(({ sha256 }, index) => sha256 === wanted[index]?.sha256)) {
    if (there.length === wanted.length) return "present";
    return { index: there.length, keep: wanted[there.length - 1]?.kept };
  }
  if (newest.sha256 === present.sha256) {
    const has = new Set(there.map(({ sha256 }) => sha256));
    if (wanted.every(({ sha256 }) => has.has(sha256))) return "present";
  }
  if (!isNewer(newest, present)) return "differs";
  // The source has gone on since. What it has not kept stays here as what was replaced, since it may be of a session.
  // One that was gone back to is there twice, and a copy that was ended may have brought the first of the two.
  const last = wanted.findLastIndex((one) => isSame(one, present));
  if (last >= 0) return { index: last + 1, keep: wanted[last]?.kept };
  return { index: wanted.findIndex((one) => isNewer(one, present)), keep: "replaced" };
}

/** Whether an archive of the source may take the place of the target's newest. */
function isNewer(one: SnapshotMetadata, present: SnapshotMetadata): boolean {
  const relation = relationOf(one, present);
  // Archives of older programs have times alone.
  if (relation === "unknown") return Date.parse(one.createdAt) > Date.parse(present.createdAt);
  // Where only copies were made into the target, the source may have begun again after an erasure.
  return relation === "after" || (relation === "unrelated" && present.copied === true);
}

function isSame(a: SnapshotMetadata, b: SnapshotMetadata): boolean {
  return a.sha256 === b.sha256 && Date.parse(a.createdAt) === Date.parse(b.createdAt);
}

async function deleteSurplus({ from, to, key }: Stores & { key: SnapshotKey }, call: StoreCall): Promise<CopyOutcome> {
  const { newest, revision: replaces } = await to.look(key, call);
  if (newest === undefined) return { kind: "present" };
  // The list of the source is older than this, and a volume that was taken away since has nothing either.
  const { state } = await from.look(key, call);
  if (state === "unmarked") throw new StoreConflict("the source says of nothing any more that it was erased");
  if (state !== "none") throw new StoreConflict("it was saved in the meantime");
  await to.delete(key, { ...call, replaces });
  return { kind: "deleted" };
}
