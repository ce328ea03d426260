import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { ArchiveError } from "../../../../crds/archive/archive-error.ts";
import { checkSnapshotKey, type SnapshotKey, snapshotPath } from "../../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import type { KeptSnapshots, SnapshotVersion } from "../../../../crds/snapshots/snapshot-store.ts";
import { digitsOf, ifThere, placesOf, readStored, type StoredFile } from "./volume-files.ts";
import { isTaken, type VolumeOwner } from "./volume-owner.ts";

export const MARK = ".marked";
const MOST_DELETIONS = 10_000;
const MOST_LOOKS = 3;

/** The present state of the volume. */
export interface VolumeState {
  readonly root: string;
  look(key: SnapshotKey): Promise<KeptSnapshots>;
  /** Finds an archive of the key, the newest or an older version. @throws ArchiveError if it is another tenant's */
  find(key: SnapshotKey, sha256: string): Promise<FoundFile | undefined>;
  /** As `find`, and opens it. */
  open(key: SnapshotKey, sha256: string): Promise<{ handle: FileHandle; metadata: SnapshotMetadata } | undefined>;
  /** @throws ArchiveError if it is another tenant's */
  newest(key: SnapshotKey): Promise<StoredFile | undefined>;
  /** The latest first. */
  versions(key: SnapshotKey): Promise<StoredFile[]>;
  /** Both of these. */
  read(key: SnapshotKey): Promise<StoredKey>;
  /** Identifies the state of a key with these archives. */
  revisionOf(key: SnapshotKey, stored: Pick<StoredKey, "versions"> & { newest: Identified | undefined }): string;
  /** Call this when the archives of a key were deleted. */
  noteDeletion(key: SnapshotKey): void;
  isMarked(): Promise<boolean>;
  /** @throws Error if the volume is not mounted: that must not look like a volume without archives */
  checkRoot(): Promise<void>;
}

/** The archives of a key. */
export interface StoredKey {
  readonly newest: StoredFile | undefined;
  /** The latest first. */
  readonly versions: readonly StoredFile[];
}

type Identified = Pick<StoredFile, "metadata" | "commit" | "identity">;

export const NOTHING_STORED: StoredKey = { newest: undefined, versions: [] };

/** A file with its metadata. */
export interface FoundFile extends StoredFile {
  readonly metadata: SnapshotMetadata;
}

/** @param owner moves files back that another server moved aside. @default none are moved back */
export function createVolumeState(root: string, owner?: Pick<VolumeOwner, "giveBack">): VolumeState {
  // The revision of a key without an archive has this process's epoch and its deletions, so it never equals an earlier
  // one.
  let epoch = randomBytes(8).toString("hex");
  const deletions = new Map<string, number>();

  const revisionOf: VolumeState["revisionOf"] = (key, { newest, versions }) =>
    revisionOfNewest(key, newest) + revisionOfCheckpoints(versions);

  function revisionOfNewest(key: SnapshotKey, stored: Identified | undefined): string {
    if (stored === undefined) return `none.${epoch}.${deletions.get(snapshotPath(key)) ?? 0}`;
    const { metadata, commit = "0", identity } = stored;
    return metadata === undefined ? `unrecorded.${identity}` : `${digitsOf(metadata.sha256)}.${commit}`;
  }

  function noteDeletion(key: SnapshotKey): void {
    if (deletions.size >= MOST_DELETIONS) {
      deletions.clear();
      epoch = randomBytes(8).toString("hex");
    }
    const path = snapshotPath(key);
    deletions.set(path, (deletions.get(path) ?? 0) + 1);
  }

  async function readNewest(key: SnapshotKey): Promise<StoredFile | undefined> {
    const { archive, folder } = placesOf(root, key);
    let stored = await readStored(archive);
    if (stored === undefined && owner !== undefined) {
      await owner.giveBack(folder, basename(archive));
      stored = await readStored(archive);
    }
    if (stored?.metadata !== undefined) checkOwner(key, stored.metadata);
    return stored;
  }

  async function readVersions(key: SnapshotKey): Promise<StoredFile[]> {
    const { versions } = placesOf(root, key);
    const namesIn = async (): Promise<string[]> => (await ifThere(readdir(versions))) ?? [];
    let present = await namesIn();
    if (owner !== undefined && present.some(isTaken)) {
      await owner.giveBack(versions);
      present = await namesIn();
    }
    const names = present.filter((name) => /^[0-9a-f]{16}\.tar\.gz$/.test(name));
    const stored = await Promise.all(names.map((name) => readStored(join(versions, name))));
    return stored.filter((one) => one !== undefined).sort((a, b) => b.order - a.order);
  }

  async function read(key: SnapshotKey): Promise<StoredKey> {
    return { newest: await readNewest(key), versions: await readVersions(key) };
  }

  async function isMarked(): Promise<boolean> {
    return (await ifThere(stat(join(root, MARK)))) !== undefined;
  }

  async function look(key: SnapshotKey): Promise<KeptSnapshots> {
    checkSnapshotKey(key);
    await checkRoot();
    const stored = await read(key);
    const { newest } = stored;
    const versions = stored.versions.flatMap(asVersion);
    const revision = revisionOf(key, stored);
    if (newest === undefined) return { revision, state: (await isMarked()) ? "none" : "unmarked", versions };
    if (newest.metadata === undefined) return { revision, state: "unrecorded", versions };
    return { revision, state: "kept", newest: newest.metadata, versions };
  }

  async function checkRoot(): Promise<void> {
    await stat(root);
  }

  async function find(key: SnapshotKey, sha256: string): Promise<FoundFile | undefined> {
    checkSnapshotKey(key);
    const { archive, versions } = placesOf(root, key);
    for (const path of [archive, join(versions, `${digitsOf(sha256)}.tar.gz`)]) {
      const stored = await readStored(path);
      if (stored?.metadata?.sha256 !== sha256) continue;
      checkOwner(key, stored.metadata);
      return { ...stored, metadata: stored.metadata };
    }
    return undefined;
  }

  return {
    root,
    look,
    find,
    async open(key, sha256) {
      for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
        const found = await find(key, sha256);
        if (found === undefined) return undefined;
        const handle = await ifThere(open(found.path, "r"));
        if (handle === undefined) continue;
        // Another archive may have replaced it since. With the same size, its reader would find a wrong digest.
        if ((await handle.stat()).size === found.sizeBytes) return { handle, metadata: found.metadata };
        await handle.close();
      }
      return undefined;
    },
    newest: readNewest,
    versions: readVersions,
    ...{ read, revisionOf, noteDeletion, isMarked, checkRoot },
  };
}

/** All archives of a key, the newest first. */
export function archivesIn({ newest, versions }: StoredKey): StoredFile[] {
  return newest === undefined ? [...versions] : [newest, ...versions];
}

/** The file with its metadata; an empty list if no metadata matches it. */
export function foundIn({ metadata, ...file }: StoredFile): FoundFile[] {
  return metadata === undefined ? [] : [{ ...file, metadata }];
}

/**
 * The order of a version that is kept now. It follows the time of the save, and is after all versions kept before: the
 * clock may have been ahead.
 */
export function orderAfter([latest]: readonly StoredFile[], { createdAt }: SnapshotMetadata): number {
  return Math.max(Date.parse(createdAt) || 0, (latest?.order ?? 0) + 1);
}

/** Empty without checkpoints. A checkpoint has no effect on the newest archive, but is another state of the key. */
function revisionOfCheckpoints(versions: readonly StoredFile[]): string {
  const checkpoints = versions.filter(({ metadata }) => metadata?.kind === "checkpoint");
  if (checkpoints.length === 0) return "";
  const hash = createHash("sha256");
  for (const { commit, metadata } of checkpoints) hash.update(`${metadata?.sha256} ${commit}\n`);
  return `.${hash.digest("hex").slice(0, 32)}`;
}

export function asVersion({ metadata, kept = "replaced" }: StoredFile): SnapshotVersion[] {
  return metadata === undefined ? [] : [{ ...metadata, kept }];
}

export function checkOwner(key: SnapshotKey, { tenantId, workloadRef }: SnapshotKey): void {
  if (tenantId === key.tenantId && workloadRef === key.workloadRef) return;
  const whose = `of tenant "${tenantId}" and workload "${workloadRef}"`;
  const message = `${snapshotPath(key)} is ${whose}, not of "${key.tenantId}" and "${key.workloadRef}": the volume may ignore case, so rename the tenant or use another volume`;
  throw new ArchiveError("Foreign", message);
}
