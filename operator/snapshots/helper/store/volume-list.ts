import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { isObjectName, isTenantId } from "../../../../crds/names.ts";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { StoreEntry } from "../../../../crds/snapshots/snapshot-store.ts";
import { compareKeys, type PageFilter, type StorePage } from "../../../../crds/snapshots/store-pages.ts";
import type { Turns } from "./turns.ts";
import { ifFolder, placesOf, readStored, type StoredFile } from "./volume-files.ts";
import type { VolumeState } from "./volume-state.ts";
import type { VolumeTenants } from "./volume-tenants.ts";

const TENANTS_AT_ONCE = 64;
const FIRST_TENANTS = 16;
/** The most tenants that one page reads, if few have an archive of the requested workload. */
const MOST_TENANTS = 5000;

/** The part of a tenant's archives that a page still needs. */
interface Part {
  readonly isWanted: (key: SnapshotKey) => boolean;
  /** The most keys. */
  readonly left: number;
}

/** `used`: of each key the newest archive, or its latest version if it has no newest archive. */
type Listed = "all" | "newest" | "used";

/** Lists in pages, so that the memory does not grow with the number of archives. */
export interface VolumeList {
  /** All archives of a tenant, in its turn. */
  listTenant(tenantId: string): Promise<StoreEntry[]>;
  /** @param filter.uses also the latest version of each key without a newest archive. @default false */
  list(
    filter: PageFilter & { readonly versions: boolean; readonly uses?: boolean | undefined },
  ): Promise<StorePage<StoreEntry>>;
  /** The keys of archives, without reading any archive's state. */
  names(filter: PageFilter): Promise<StorePage<SnapshotKey>>;
}

export function createVolumeList(options: { state: VolumeState; tenants: VolumeTenants; turns: Turns }): VolumeList {
  const { state, tenants, turns } = options;
  const { root } = state;

  async function namesIn(folder: string): Promise<string[]> {
    return (await ifFolder(readdir(folder))) ?? [];
  }

  /** The keys of a tenant's archives; with `versions` also those with only older versions. */
  async function keysOf(
    tenantId: string,
    { names, versions }: { names: readonly string[]; versions: boolean },
  ): Promise<SnapshotKey[]> {
    const older = versions && names.includes(".versions") ? await namesIn(join(root, tenantId, ".versions")) : [];
    const refs = [...names.flatMap(workloadOf), ...older.filter(isObjectName)];
    return [...new Set(refs)].map((workloadRef) => ({ tenantId, workloadRef })).sort(compareKeys);
  }

  /** @param options.part of the tenant's archives. @default all */
  async function entriesOf(
    tenantId: string,
    { archives, part }: { archives: Listed; part?: Part },
  ): Promise<StoreEntry[]> {
    const versions = archives !== "newest";
    const entries: StoreEntry[] = [];
    const names = await namesIn(join(root, tenantId));
    let keys = 0;
    for (const key of await keysOf(tenantId, { names, versions })) {
      if (keys === part?.left) break;
      if (part?.isWanted(key) === false) continue;
      const before = entries.length;
      const stored = await readStored(placesOf(root, key).archive, names);
      if (stored !== undefined) entries.push(entryOf(key, stored));
      const isWhole = archives === "newest" || (archives === "used" && stored !== undefined);
      const older = isWhole || !names.includes(".versions") ? [] : await state.versions(key);
      for (const one of archives === "used" ? older.slice(0, 1) : older) {
        const { kept = "replaced" } = one;
        entries.push({ ...entryOf(key, one), version: basename(one.path, ".tar.gz"), kept });
      }
      // A folder of older versions may be empty.
      if (entries.length > before) keys += 1;
    }
    return entries;
  }

  /** The tenants of a list in batches, from the tenant of `after` on. */
  async function* batches({ tenantId, after }: PageFilter, size: () => number): AsyncGenerator<string[]> {
    if (tenantId !== undefined) {
      if (isTenantId(tenantId)) yield [tenantId];
      return;
    }
    if (after !== undefined) yield [after.tenantId];
    let last = after?.tenantId;
    for (;;) {
      const batch = await tenants.behind(last, size());
      if (batch.length === 0) return;
      yield batch;
      last = batch.at(-1);
    }
  }

  async function readPage<T extends SnapshotKey>(
    filter: PageFilter,
    read: (tenantId: string, part: Part) => Promise<readonly T[]>,
  ): Promise<StorePage<T>> {
    await state.checkRoot();
    const { workloadRef, after, limit } = filter;
    const isWanted = (key: SnapshotKey): boolean =>
      (workloadRef === undefined || key.workloadRef === workloadRef) &&
      (after === undefined || compareKeys(key, after) > 0);
    const items: T[] = [];
    let [keys, looks, size] = [0, 0, FIRST_TENANTS];
    let last = after;
    for await (const batch of batches(filter, () => size)) {
      // One more key shows whether the list has another page.
      const part = { isWanted, left: limit + 1 - keys };
      const found = (await Promise.all(batch.map((tenantId) => read(tenantId, part)))).flat();
      for (const item of found) {
        if (last === undefined || compareKeys(item, last) !== 0) {
          if (keys === limit) return { items, next: last };
          keys += 1;
          last = { tenantId: item.tenantId, workloadRef: item.workloadRef };
        }
        items.push(item);
      }
      looks += batch.length;
      const tenantId = batch.at(-1);
      if (workloadRef !== undefined && tenantId !== undefined && looks >= MOST_TENANTS) {
        return { items, next: { tenantId, workloadRef } };
      }
      // Enough for the rest of the page, if the next tenants have as many archives as these.
      size = Math.min(TENANTS_AT_ONCE, Math.ceil(((limit + 1 - keys) * batch.length) / Math.max(1, found.length)));
    }
    return { items, next: undefined };
  }

  return {
    listTenant: (tenantId) => entriesOf(tenantId, { archives: "all" }),
    list({ versions, uses = false, ...filter }) {
      const archives = versions ? "all" : uses ? "used" : "newest";
      return readPage(filter, (tenantId, part) => turns.take(tenantId, () => entriesOf(tenantId, { archives, part })));
    },
    names: (filter) =>
      readPage(filter, async (tenantId, { isWanted, left }) => {
        const names = await namesIn(join(root, tenantId));
        return (await keysOf(tenantId, { names, versions: false })).filter(isWanted).slice(0, left);
      }),
  };
}

/** The workload whose newest archive has that file name, in a list; an empty list for another file. */
function workloadOf(name: string): string[] {
  const workloadRef = name.endsWith(".tar.gz") ? name.slice(0, -".tar.gz".length) : "";
  return isObjectName(workloadRef) ? [workloadRef] : [];
}

function entryOf(key: SnapshotKey, { sizeBytes, usedMs, metadata }: StoredFile): StoreEntry {
  const isOwn = metadata?.tenantId === key.tenantId && metadata.workloadRef === key.workloadRef;
  const own = isOwn ? metadata : undefined;
  return { ...key, sizeBytes, usedAt: new Date(usedMs).toISOString(), metadata: own };
}
