import { ArchiveError } from "../archive/archive-error.ts";
import { allArchives } from "./kept-versions.ts";
import { relationOf } from "./lineage.ts";
import type { SnapshotKey } from "./snapshot-key.ts";
import type { SnapshotMetadata } from "./snapshot-metadata.ts";
import {
  type CommitCall,
  type CommittedSnapshot,
  type KeptAs,
  type KeptSnapshots,
  type SnapshotStore,
  type SnapshotVersion,
  type StoreCall,
  StoreConflict,
  type StoreEntry,
} from "./snapshot-store.ts";
import { compareKeys, eachInPages } from "./store-pages.ts";
import { isNamed } from "./version-names.ts";

/** The result for one tenant and workload. */
export type CopyOutcome =
  | { readonly kind: "copied"; readonly archives: number; readonly bytes: number }
  /** The target had all archives already. */
  | { readonly kind: "present" }
  /** The target has archives that the source does not have: it was used since the last copy, and is left unchanged. */
  | { readonly kind: "differs" }
  /** Only the target has archives: they were erased in the source since an earlier copy, or saved in the target. */
  | { readonly kind: "surplus" }
  /** A surplus that was deleted in the target. */
  | { readonly kind: "deleted" }
  /**
   * A surplus that was not deleted: another key differs, so the source may be the older of the two stores; or the source
   * has a named checkpoint of the key.
   */
  | { readonly kind: "withheld" }
  /** Not copied, and the target is unchanged: the archive changed during the copy, or does not match its metadata. */
  | { readonly kind: "failed"; readonly because: string };

interface Stores {
  readonly from: SnapshotStore;
  readonly to: SnapshotStore;
}

export interface CopyCall extends StoreCall {
  /**
   * Whether archives that the source does not have are deleted in the target, which must not be in use. Nothing is
   * deleted if the target was used since the last copy. @default false
   */
  readonly deletes?: boolean | undefined;
  /** Called with the number of keys (a tenant and a workload) in the source. */
  readonly onBegin?: ((keys: number) => void) | undefined;
  /** Called with the result of each key. */
  readonly onKey: (key: SnapshotKey, outcome: CopyOutcome) => void;
}

const AT_ONCE = 4;

/**
 * Copies all archives of a store to another, with their versions and metadata. The SHA-256 of each archive is checked
 * while it is copied. An archive that the target has is not sent again. So a copy that was interrupted continues where
 * it stopped, and a later copy only brings what was saved since. Checkpoints are copied if they have names; the sessions
 * of others save again. Those of the target do not change.
 *
 * @param call.timeoutMs for each archive
 * @throws the first error of a store that does not concern one key alone
 */
export async function copyStore({ from, to }: Stores, call: CopyCall): Promise<void> {
  const { onBegin, onKey, deletes = false } = call;
  const each = (store: SnapshotStore) => eachInPages((page) => store.list({ ...page, versions: false }, call));
  let found = 0;
  for await (const _ of eachInPages((page) => from.names(page, call))) found += 1;
  // A volume that is not mounted is empty too.
  if (deletes && found === 0) {
    throw new Error("Cannot delete the archives that the source does not have: the source is empty");
  }
  onBegin?.(found);

  // A source that is no longer used does not have the tenants that came to the target since.
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

  const rest = keysOf(from, call);
  let failure: { readonly error: unknown } | undefined;
  async function work(): Promise<void> {
    for await (const { key, newest, hasNames } of rest) {
      if (failure !== undefined) return;
      const unrecorded = { kind: "failed", because: "the archive does not match its metadata" } as const;
      if (newest !== undefined || hasNames) {
        const isUnrecorded = newest !== undefined && newest.metadata === undefined;
        await report(key, async () => (isUnrecorded ? unrecorded : await copyKey({ from, to, key }, call)));
      }
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

interface ListedKey {
  readonly key: SnapshotKey;
  readonly newest: StoreEntry | undefined;
  readonly hasNames: boolean;
}

async function* keysOf(store: SnapshotStore, call: StoreCall): AsyncGenerator<ListedKey> {
  let listed: ListedKey | undefined;
  for await (const entry of eachInPages((page) => store.list({ ...page, versions: true }, call))) {
    const { tenantId, workloadRef, version, metadata } = entry;
    const key = { tenantId, workloadRef };
    if (listed !== undefined && compareKeys(listed.key, key) !== 0) {
      yield listed;
      listed = undefined;
    }
    const newest = version === undefined ? entry : listed?.newest;
    listed = { key, newest, hasNames: listed?.hasNames === true || isNamed(metadata ?? {}) };
  }
  if (listed !== undefined) yield listed;
}

/** The keys that only the first of two lists has. Both are in the same order. */
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

async function copyKey(stores: Stores & { key: SnapshotKey }, call: StoreCall): Promise<CopyOutcome> {
  const source = await stores.from.look(stores.key, call);
  if (source.newest === undefined && !source.versions.some(isNamed))
    throw new StoreConflict("it was deleted in the meantime");
  const saved = await copySaved(stores, { ...call, source });
  if (saved.kind !== "copied" && saved.kind !== "present") return saved;
  const named = await copyNamed(stores, { ...call, source });
  const [archives, bytes] = [named.archives, named.bytes];
  if (saved.kind === "present") return archives === 0 ? saved : { kind: "copied", archives, bytes };
  return { kind: "copied", archives: saved.archives + archives, bytes: saved.bytes + bytes };
}

/**
 * Gives the target the names that archives of the source have, and those of these archives that are beside the newest
 * one. A name that another archive of the target has is moved.
 */
async function copyNamed(
  { from, to, key }: Stores & { key: SnapshotKey },
  { source, ...call }: StoreCall & { source: KeptSnapshots },
): Promise<{ archives: number; bytes: number }> {
  const copied = { archives: 0, bytes: 0 };
  for (const { names = [], ...archive } of allArchives(source).filter(isNamed).reverse()) {
    const { sha256, sizeBytes, kind } = archive;
    const there = await to.look(key, call);
    const present = allArchives(there).find((one) => one.sha256 === sha256);
    if (present === undefined && (kind === "checkpoint" || source.newest === undefined)) {
      const most = { history: there.versions.length, replaced: there.versions.length };
      const asCheckpoint = { ...archive, kind: "checkpoint" as const, session: archive.session ?? "copied" };
      await putCopy({ from, to, key }, { ...call, archive: asCheckpoint, replaces: there.revision, most });
      copied.archives += 1;
      copied.bytes += sizeBytes;
    }
    for (const name of names) {
      if (present?.names?.includes(name)) continue;
      const named = { sha256, name };
      let outcome = await to.setName(key, named, call);
      if (outcome === "taken") {
        await to.dropName(key, name, call);
        outcome = await to.setName(key, named, call);
      }
      if (outcome !== "named") throw new StoreConflict(`the name ${name} could not be copied: ${outcome}`);
    }
  }
  return copied;
}

async function copySaved(
  { from, to, key }: Stores & { key: SnapshotKey },
  { source, ...call }: StoreCall & { source: KeptSnapshots },
): Promise<CopyOutcome> {
  const { newest } = source;
  if (newest === undefined) return { kind: "present" };
  const wanted: readonly (SnapshotMetadata & { readonly kept?: KeptAs })[] = [...savedIn(source).reverse(), newest];
  const present = await to.look(key, call);
  const there = present.newest === undefined ? [] : [...savedIn(present).reverse(), present.newest];
  const begin = whereToBegin(wanted, there);
  if (typeof begin === "string") return { kind: begin };
  let { revision } = present;
  let { keep } = begin;
  let bytes = 0;
  const left = wanted.slice(begin.index);
  for (const { kept, ...archive } of left) {
    const most = { history: wanted.length, replaced: wanted.length + present.versions.length + 1 };
    ({ revision } = await putCopy({ from, to, key }, { ...call, archive, replaces: revision, keep, most }));
    keep = kept;
    bytes += archive.sizeBytes;
  }
  return { kind: "copied", archives: left.length, bytes };
}

/** @throws StoreConflict if the source no longer has it, or the target has changed */
async function putCopy(
  { from, to, key }: Stores & { key: SnapshotKey },
  { archive, ...commit }: CommitCall & { archive: SnapshotMetadata },
): Promise<CommittedSnapshot> {
  // Names are set when all archives are there: one of the target may have such a name.
  const { sha256, sizeBytes: _, tenantId: __, workloadRef: ___, names: ____, ...description } = archive;
  const opened = await from.open(key, sha256, commit);
  if (opened === undefined) throw new StoreConflict("another archive has replaced it in the meantime");
  try {
    const describe = () => ({ ...description, copied: true }) as const;
    return await to.put(key, opened.content, { ...commit, describe });
  } finally {
    opened.close();
  }
}

/** The older versions without checkpoints, the latest first. */
function savedIn({ versions }: KeptSnapshots): SnapshotVersion[] {
  return versions.filter(({ kind }) => kind !== "checkpoint");
}

interface Begin {
  /** The index of the first archive that the target does not have. */
  readonly index: number;
  /** Why the target's newest archive is kept as an older version. */
  readonly keep: KeptAs | undefined;
}

/**
 * @param wanted the source's archives, the oldest first
 * @param there the target's archives, the oldest first
 */
function whereToBegin(
  wanted: readonly (SnapshotMetadata & { readonly kept?: KeptAs })[],
  there: readonly SnapshotMetadata[],
): Begin | "present" | "differs" {
  const [newest, present] = [wanted.at(-1), there.at(-1)];
  if (newest === undefined || present === undefined) return { index: 0, keep: undefined };
  // The target has what an earlier or interrupted copy wrote.
  if (there.every(({ sha256 }, index) => sha256 === wanted[index]?.sha256)) {
    if (there.length === wanted.length) return "present";
    return { index: there.length, keep: wanted[there.length - 1]?.kept };
  }
  if (newest.sha256 === present.sha256) {
    const has = new Set(there.map(({ sha256 }) => sha256));
    if (wanted.every(({ sha256 }) => has.has(sha256))) return "present";
  }
  if (!isNewer(newest, present)) return "differs";
  // The source was used since. If it no longer has the target's newest archive, that archive stays as `replaced`, since
  // a session may have saved it. After a rollback the source has the same archive twice, and an interrupted copy may
  // have brought only the first of the two.
  const last = wanted.findLastIndex((one) => isSame(one, present));
  if (last >= 0) return { index: last + 1, keep: wanted[last]?.kept };
  return { index: wanted.findIndex((one) => isNewer(one, present)), keep: "replaced" };
}

/** Whether an archive of the source may replace the target's newest. */
function isNewer(one: SnapshotMetadata, present: SnapshotMetadata): boolean {
  const relation = relationOf(one, present);
  // Archives that older versions wrote have only times.
  if (relation === "unknown") return Date.parse(one.createdAt) > Date.parse(present.createdAt);
  // If the target was only copied to, the source may have begun a new lineage after an erasure.
  return relation === "after" || (relation === "unrelated" && present.copied === true);
}

function isSame(a: SnapshotMetadata, b: SnapshotMetadata): boolean {
  return a.sha256 === b.sha256 && Date.parse(a.createdAt) === Date.parse(b.createdAt);
}

async function deleteSurplus({ from, to, key }: Stores & { key: SnapshotKey }, call: StoreCall): Promise<CopyOutcome> {
  const { newest, revision: replaces } = await to.look(key, call);
  if (newest === undefined) return { kind: "present" };
  // The source was listed earlier, and a volume that was unmounted since is empty too.
  const { state, versions } = await from.look(key, call);
  // It was erased, and has a named checkpoint since, which is copied.
  if (versions.some(isNamed)) return { kind: "withheld" };
  if (state === "unmarked") throw new StoreConflict("the source is no longer marked as a store in use");
  if (state !== "none") throw new StoreConflict("it was saved in the meantime");
  await to.delete(key, { ...call, replaces });
  return { kind: "deleted" };
}
