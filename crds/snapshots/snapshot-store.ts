import type { TableMark } from "../archive/archive-table.ts";
import type { SnapshotKey } from "./snapshot-key.ts";
import type { SnapshotMetadata } from "./snapshot-metadata.ts";
import type { PageFilter, StorePage } from "./store-pages.ts";
import type { NameOutcome } from "./version-names.ts";

export interface StoreCall {
  readonly signal: AbortSignal;
  /** Milliseconds for the whole call. */
  readonly timeoutMs: number;
}

/** The metadata that a save gives; the store adds the rest. */
export type SnapshotDescription = Omit<SnapshotMetadata, "sha256" | "sizeBytes" | "tenantId" | "workloadRef">;

/**
 * Why an older version is kept: `history` if a later session started from it, `replaced` if a session that did not
 * start from it replaced it, perhaps unintentionally.
 */
export type KeptAs = "history" | "replaced";

/** An older version. */
export interface SnapshotVersion extends SnapshotMetadata {
  readonly kept: KeptAs;
}

/** The most that is kept, according to `TENANCY_SNAPSHOT_KEEP` and the limits. */
export interface MostKept {
  /** The number of older versions of a key with the kind `history`. */
  readonly history: number;
  /** The number of older versions of a key with the kind `replaced`. */
  readonly replaced: number;
  /** Bytes of a tenant's archives, with all versions. @default no limit */
  readonly tenantBytes?: number | undefined;
  /** Bytes of a workload's archives, of all tenants and with all versions. @default no limit */
  readonly workloadBytes?: number | undefined;
}

/** The archives of a tenant and workload at one moment. */
export interface KeptSnapshots {
  /**
   * An opaque id of this state. An id never returns, not by a deletion, a rollback or another save of the same archive.
   * So a caller that names the state it read cannot replace a state that it has not read.
   */
  readonly revision: string;
  /**
   * `kept`: there is an archive. `none`: there is no archive, and the store has its mark. `unmarked`: there is no
   * archive, and the store has no mark, so nothing was ever saved in it. `unrecorded`: there is an archive without
   * matching metadata.
   */
  readonly state: "kept" | "none" | "unmarked" | "unrecorded";
  readonly newest?: SnapshotMetadata | undefined;
  /** Older versions, the latest first. */
  readonly versions: readonly SnapshotVersion[];
}

/** An open archive. If the iteration fails, the archive was cut off, or is not the archive that was saved. */
export interface OpenArchive {
  readonly metadata: SnapshotMetadata;
  readonly content: AsyncIterable<Uint8Array>;
  /**
   * Releases an archive that is not read to its end. Otherwise its connection is held until the call's time is over.
   */
  close(): void;
}

/** Bytes from one offset up to another, without the byte at the second. */
export interface ByteRange {
  readonly from: number;
  readonly to: number;
}

/** How an archive becomes the newest, or, with the `kind` of a checkpoint, an older version beside it. */
export interface CommitCall extends StoreCall {
  /** The revision of the state that it may replace. */
  readonly replaces: string;
  /** Why the newest archive of that state is kept as an older version. @default it is not kept */
  readonly keep?: KeptAs | undefined;
  /** Versions beyond this are deleted, the oldest first. The version that this call keeps stays. */
  readonly most: MostKept;
}

/** The planned commit that {@link SnapshotStore.checkRoom} is about. */
export interface RoomCall extends StoreCall, Pick<CommitCall, "keep" | "most"> {
  /** The session that is saved: its checkpoint does not count, since the commit replaces it. */
  readonly session?: string | undefined;
  /** The bytes of the archive, or fewer if they are not known. */
  readonly sizeBytes: number;
}

/** A kept archive of which entries stay in a new one, before the entries that are sent. */
export interface Onto {
  /** Its SHA-256. */
  readonly base: string;
  /** Those of its entries that stay, as `EntryBits`. */
  readonly keeps: Uint8Array;
  /** Identifies the table of what is sent. Called at its end. */
  readonly table: () => TableMark | undefined;
}

/** An archive that is stored and not yet the newest. */
export interface StoredArchive {
  readonly sizeBytes: number;
  /** Of an archive that was composed; undefined if it has too many entries for one. */
  readonly table?: TableMark | undefined;
}

export interface PutCall extends CommitCall {
  /**
   * The archive that is sent has changes of a kept one, and a table. What becomes the newest is composed of both.
   *
   * @throws ArchiveError from the call if the kept archive does not exist, is damaged or has no table
   */
  readonly onto?: Onto | undefined;
  /**
   * Called when the whole archive is stored, before it becomes the newest. If it throws, the call fails with that
   * error.
   */
  readonly describe: (stored: StoredArchive) => SnapshotDescription;
}

/** The result of a commit. */
export interface CommittedSnapshot {
  readonly revision: string;
  readonly metadata: SnapshotMetadata;
}

/** When a key was last in use. */
export interface StoreUse extends SnapshotKey {
  /** ISO 8601 time of the store's clock at which its archive was written or last in use. */
  readonly usedAt: string;
}

/** An archive in a list. */
export interface StoreEntry extends StoreUse {
  /** The digits that name an older version; undefined for the newest. */
  readonly version?: string | undefined;
  /** Why an older version is kept; undefined for the newest. */
  readonly kept?: KeptAs | undefined;
  readonly sizeBytes: number;
  /** Undefined if no metadata matches the archive. */
  readonly metadata: SnapshotMetadata | undefined;
}

/**
 * The archives of tenants' files, on a volume or in object storage. Every call throws `StoreError` if the store fails,
 * `NetworkError` if it cannot be reached, and the signal's reason if it is aborted.
 *
 * A changing call that throws a `NetworkError` may have succeeded, or may still succeed. A commit names the state that
 * it replaces, so the state shows whether it succeeded.
 */
export interface SnapshotStore {
  /** Whether `put` takes `onto`. */
  readonly composes: boolean;
  /** @throws ArchiveError if the archive belongs to another tenant */
  look(key: SnapshotKey, call: StoreCall): Promise<KeptSnapshots>;
  /**
   * Opens the newest archive or an older version; undefined if there is no such archive.
   *
   * @param call.range only these bytes, which the archive must have. Their number is checked, but not their SHA-256.
   */
  open(
    key: SnapshotKey,
    sha256: string,
    call: StoreCall & { readonly range?: ByteRange | undefined },
  ): Promise<OpenArchive | undefined>;
  /**
   * Stores an archive, and then replaces the newest with it in one step. If anything fails before that step, the state
   * does not change.
   *
   * @param archive its bytes; if they fail, the call fails
   * @throws StoreConflict if the state is no longer the one that the call replaces
   * @throws QuotaError if more would be kept than `most` allows
   */
  put(key: SnapshotKey, archive: AsyncIterable<Uint8Array>, call: PutCall): Promise<CommittedSnapshot>;
  /**
   * Checks whether an archive of that size may replace the newest, with what is kept at this moment.
   *
   * @throws QuotaError if `put` would throw it after the whole archive was sent
   */
  checkRoom(key: SnapshotKey, call: RoomCall): Promise<void>;
  /**
   * Makes a kept archive of this key or another key the newest.
   *
   * @param call.sandbox what the archive then says of its sandbox. @default what it says already
   * @returns undefined if that archive does not exist
   * @throws StoreConflict as `put` does
   */
  adopt(
    key: SnapshotKey,
    from: SnapshotKey & { readonly sha256: string },
    call: CommitCall & { readonly createdAt: string; readonly sandbox?: string | undefined },
  ): Promise<CommittedSnapshot | undefined>;
  /**
   * Deletes the checkpoint of a session. Its checkpoints with a name become ordinary versions.
   *
   * @param call.session as in the metadata
   * @returns whether there was one
   */
  dropCheckpoint(key: SnapshotKey, call: StoreCall & { readonly session: string }): Promise<boolean>;
  /**
   * Names a kept archive. It then stays until all archives of its key are deleted, or until it loses its last name.
   *
   * @param named.name as {@link versionNameRule} says
   */
  setName(
    key: SnapshotKey,
    named: { readonly sha256: string; readonly name: string },
    call: StoreCall,
  ): Promise<NameOutcome>;
  /** Removes a name. The archive itself is not deleted now. @returns whether an archive had the name */
  dropName(key: SnapshotKey, name: string, call: StoreCall): Promise<boolean>;
  /**
   * Deletes all archives of a key.
   *
   * @param call.replaces the revision of the only state that may be deleted. @default any
   * @param call.unusedForMs deletes only if nothing was written or touched for this long, by the store's clock
   * @returns whether something was deleted
   * @throws StoreConflict if the state is another one
   */
  delete(
    key: SnapshotKey,
    call: StoreCall & { readonly replaces?: string | undefined; readonly unusedForMs?: number | undefined },
  ): Promise<boolean>;
  /** A page of archives, the newest of each key first. */
  list(filter: PageFilter & { readonly versions: boolean }, call: StoreCall): Promise<StorePage<StoreEntry>>;
  /** A page of the keys that have archives. Some clients may call only this. */
  names(filter: PageFilter, call: StoreCall): Promise<StorePage<SnapshotKey>>;
  /** A page of the times at which keys were last in use, also for archives without matching metadata. */
  uses(filter: PageFilter, call: StoreCall): Promise<StorePage<StoreUse>>;
  /** Records that archives are in use now. Missing archives are ignored. */
  touch(keys: readonly SnapshotKey[], call: StoreCall): Promise<void>;
  /** The size of the store; undefined if it is unlimited. */
  space(call: StoreCall): Promise<{ readonly freeBytes: number; readonly totalBytes: number } | undefined>;
  /** The space of all archives with all versions. For a large store it may be some minutes old. */
  usage(call: StoreCall): Promise<StoreUsage>;
  /** Deletes the leftovers of calls that did not finish, if they are older than a day. */
  tidy(call: StoreCall): Promise<void>;
  close(): void;
}

/** The space that archives take. */
export interface StoreUsage {
  /** The number of archives; each older version counts as one. */
  readonly archives: number;
  readonly bytes: number;
  /** By workload, for all tenants. */
  readonly workloads: Readonly<Record<string, { readonly archives: number; readonly bytes: number }>>;
}

/** The state is no longer the one that a call names: another writer has changed it. */
export class StoreConflict extends Error {
  override readonly name = "StoreConflict";
}

/** A store that responds but cannot do what was requested; the message says why. */
export class StoreError extends Error {
  override readonly name: string = "StoreError";
  /** Whether a repetition may succeed later. */
  readonly isTransient: boolean;

  constructor(message: string, options: { cause?: unknown; isTransient: boolean }) {
    super(message, { cause: options.cause });
    this.isTransient = options.isTransient;
  }
}

/** A store has no space left; the message says what to do. */
export class StoreFullError extends StoreError {
  override readonly name = "StoreFullError";

  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, { ...options, isTransient: false });
  }
}

/** An archive would exceed the limit of its tenant or workload; the message says what to do. */
export class QuotaError extends StoreError {
  override readonly name = "QuotaError";

  constructor(message: string) {
    super(message, { isTransient: false });
  }
}
