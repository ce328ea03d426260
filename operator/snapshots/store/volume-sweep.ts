import { lstat, readdir, rm, utimes } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isObjectName, isTenantId } from "../../../crds/names.ts";
import { checkSnapshotKey, type SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { StoreEntry } from "../../../crds/snapshots/snapshot-store.ts";
import type { Turns } from "./turns.ts";
import { ifFolder, ifThere, placesOf, readStored, recordPath, removeIfEmpty, type StoredFile } from "./volume-files.ts";
import type { VolumeOwner } from "./volume-owner.ts";
import type { VolumeState } from "./volume-state.ts";

const LEFTOVER_MS = 24 * 3_600_000;
const TENANTS_AT_ONCE = 64;

/** What is done to all archives. */
export interface VolumeSweep {
  /** All archives of a tenant, in its turn. */
  listTenant(tenantId: string, versions: boolean): Promise<StoreEntry[]>;
  list(filter: { tenantId?: string | undefined; versions: boolean }): Promise<StoreEntry[]>;
  /** The keys of all archives, without a look at any of them. */
  names(): Promise<SnapshotKey[]>;
  /** Notes on archives that they are in use now. */
  touch(keys: readonly SnapshotKey[]): Promise<void>;
  /** Deletes what calls have left behind that did not come to their end. */
  tidy(): Promise<void>;
  /**
   * To be called at the start of the program. Deletes uploads that arrived before it, since their clients are gone, and
   * gives files their names back that an earlier program was about to delete.
   *
   * @param isOurs whether a file has arrived since
   */
  dropFormer(isOurs: (path: string) => boolean): Promise<void>;
}

export function createVolumeSweep(options: {
  state: VolumeState;
  owner: Pick<VolumeOwner, "giveBack">;
  turns: Turns;
  now: () => number;
}): VolumeSweep {
  const { state, owner, turns, now } = options;
  const { root } = state;

  async function keysOf(tenantId: string): Promise<SnapshotKey[]> {
    const names = (await ifFolder(readdir(join(root, tenantId)))) ?? [];
    return names.flatMap((name) => {
      const workloadRef = name.endsWith(".tar.gz") ? name.slice(0, -".tar.gz".length) : "";
      return isObjectName(workloadRef) ? { tenantId, workloadRef } : [];
    });
  }

  async function ofTenants<T>(tenants: readonly string[], read: (tenantId: string) => Promise<T[]>): Promise<T[]> {
    const found: T[] = [];
    for (let from = 0; from < tenants.length; from += TENANTS_AT_ONCE) {
      found.push(...(await Promise.all(tenants.slice(from, from + TENANTS_AT_ONCE).map(read))).flat());
    }
    return found;
  }

  async function listTenant(tenantId: string, versions: boolean): Promise<StoreEntry[]> {
    const entries: StoreEntry[] = [];
    for (const key of await keysOf(tenantId)) {
      const stored = await readStored(placesOf(root, key).archive);
      if (stored !== undefined) entries.push(entryOf(key, stored));
    }
    if (!versions) return entries;
    for (const workloadRef of (await ifFolder(readdir(join(root, tenantId, ".versions")))) ?? []) {
      if (!isObjectName(workloadRef)) continue;
      const older = await state.versions({ tenantId, workloadRef });
      for (const one of older) {
        const { kept = "replaced" } = one;
        entries.push({ ...entryOf({ tenantId, workloadRef }, one), version: basename(one.path, ".tar.gz"), kept });
      }
    }
    return entries;
  }

  /** Those of tenants, and of build contexts. */
  async function foldersOf(): Promise<string[]> {
    return (await readdir(root)).filter((name) => isTenantId(name) || name === ".contexts");
  }

  async function filesIn(folder: string, isOne: (name: string) => boolean): Promise<string[]> {
    const found = (await ifFolder(readdir(join(root, folder), { recursive: true, withFileTypes: true }))) ?? [];
    const files = found.filter((entry) => !entry.isDirectory() && isOne(entry.name));
    return files.map(({ parentPath, name }) => join(parentPath, name));
  }

  return {
    listTenant,

    async list({ tenantId, versions }) {
      await state.checkRoot();
      const tenants = (tenantId === undefined ? await readdir(root) : [tenantId]).filter(isTenantId);
      return await ofTenants(tenants, (tenant) => turns.take(tenant, () => listTenant(tenant, versions)));
    },

    async names() {
      await state.checkRoot();
      return await ofTenants((await readdir(root)).filter(isTenantId), keysOf);
    },

    async touch(keys) {
      for (const key of keys) checkSnapshotKey(key);
      const time = now() / 1000;
      for (const key of keys) {
        const { archive } = placesOf(root, key);
        const stored = await readStored(archive);
        if (stored === undefined) continue;
        const { metadata, isShared } = stored;
        if (metadata !== undefined) await ifThere(utimes(recordPath(archive, metadata.sha256), time, time));
        // By the file's own goes the version before; of a copy it would be the other's too.
        if (metadata === undefined || !isShared) await ifThere(utimes(archive, time, time));
      }
    },

    async tidy() {
      for (const name of await foldersOf()) {
        for (const path of await filesIn(name, (file) => file.endsWith(".partial") || file.startsWith(".lock"))) {
          // Locks are links that lead nowhere; what is not there any more has been given back.
          const found = await ifThere(lstat(path));
          if (found !== undefined && now() - found.mtimeMs > LEFTOVER_MS) await rm(path, { force: true });
        }
      }
    },

    async dropFormer(isOurs) {
      const isPartial = (file: string): boolean => file.endsWith(".partial");
      const isTaken = (file: string): boolean => file.endsWith(".taken");
      for (const name of await foldersOf()) {
        if ((await filesIn(name, (file) => isPartial(file) || isTaken(file))).length === 0) continue;
        // In a turn nothing is on its way to another name.
        await turns.take(name, async () => {
          for (const folder of new Set((await filesIn(name, isTaken)).map(dirname))) await owner.giveBack(folder);
          for (const path of await filesIn(name, isPartial)) {
            if (isOurs(path)) continue;
            await rm(path, { force: true });
            await removeIfEmpty(dirname(path));
          }
          await removeIfEmpty(join(root, name));
        });
      }
    },
  };
}

function entryOf(key: SnapshotKey, { sizeBytes, usedMs, metadata }: StoredFile): StoreEntry {
  const isOwn = metadata?.tenantId === key.tenantId && metadata.workloadRef === key.workloadRef;
  const own = isOwn ? metadata : undefined;
  return { ...key, sizeBytes, usedAt: new Date(usedMs).toISOString(), metadata: own };
}
