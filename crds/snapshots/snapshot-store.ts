import type { SnapshotKey } from "./snapshot-key.ts";
import type { SnapshotMetadata } from "./snapshot-metadata.ts";
import type { PageFilter, StorePage } from "./store-pages.ts";

/** A call of a store. */
export interface StoreCall {
  readonly signal: AbortSignal;
  /** Milliseconds for the whole of it. */
  readonly timeoutMs: number;
}

/** What a save knows of its archive; the store adds the rest. */
export type SnapshotDescription = Omit<SnapshotMetadata, "sha256" | "sizeBytes" | "tenantId" | "workloadRef">;

/**
 * Why an older version is kept: `history` if a later session started from it, `replaced` if a session that had not
 * started from it took its place, perhaps unintentionally.
 */
export type KeptAs = "history" | "replaced";

/** An older version. */
export interface SnapshotVersion extends SnapshotMetadata {
  readonly kept: KeptAs;
}

/** How much stays at most, as `TENANCY_SNAPSHOT_KEEP` and the limits say. */
export interface MostKept {
  /** Older versions of a key that are history. */
  readonly history: number;
  /** Older versions of a key that were replaced. */
  readonly replaced: number;
  /** Bytes of a tenant's archives, with all versions. @default no limit */
  readonly tenantBytes?: number | undefined;
  /** Bytes of a workload's archives, of all tenants and with all versions. @default no limit */
  readonly workloadBytes?: number | undefined;
}

/** What is kept of a tenant and workload at one moment. */
export interface KeptSnapshots {
  /**
   * An opaque id of this state. A former state never returns, not by a deletion, a rollback or another save of the same
   * archive, so that a caller that changes the state it saw replaces nothing that it has not seen.
   */
  readonly revision: string;
  /**
   * `none`: the store itself says that there is no archive; `unmarked`: there is none, and the store is one that
   * nothing was ever saved in; `unrecorded`: there is an archive, and nothing that was recorded fits it.
   */
  readonly state: "kept" | "none" | "unmarked" | "unrecorded";
  readonly newest?: SnapshotMetadata | undefined;
  /** Older versions, the latest first. */
  readonly versions: readonly SnapshotVersion[];
}

/** An archive that is read. A failure of the iteration means that it was cut off, or is not what was saved. */
export interface OpenArchive {
  readonly metadata: SnapshotMetadata;
  readonly content: AsyncIterable<Uint8Array>;
  /** Gives it up where it is not read to its end: else what it takes is held until the call's time is up. */
  close(): void;
}

/** How an archive takes its place. */
export interface CommitCall extends StoreCall {
  /** The state that it may replace. */
  readonly replaces: string;
  /** As what the newest archive of that state stays as an older version. @default it goes */
  readonly keep?: KeptAs | undefined;
  /** What is more goes, the oldest first; what this call keeps stays. */
  readonly most: MostKept;
}

/** What an archive would take the place of, as the commit that is meant has it. */
export interface RoomCall extends StoreCall, Pick<CommitCall, "keep" | "most"> {
  /** Of the archive, or less where it is not known. */
  readonly sizeBytes: number;
}

export interface PutCall extends CommitCall {
  /** Asked when all of the archive is there, and before it takes its place. What it throws, the call fails with. */
  readonly describe: () => SnapshotDescription;
}

/** What a commit has made. */
export interface CommittedSnapshot {
  readonly revision: string;
  readonly metadata: SnapshotMetadata;
}

/** When a key was last in use. */
export interface StoreUse extends SnapshotKey {
  /** ISO 8601 time, by the store's clock, at which its archive was written or last in use. */
  readonly usedAt: string;
}

/** An archive in a list. */
export interface StoreEntry extends StoreUse {
  /** The digits that name an older version; undefined of the newest. */
  readonly version?: string | undefined;
  /** Of an older version. */
  readonly kept?: KeptAs | undefined;
  readonly sizeBytes: number;
  /** Undefined where nothing that is recorded fits it. */
  readonly metadata: SnapshotMetadata | undefined;
}

/**
 * Archives of tenants' files: on a volume or in object storage. Every call throws `StoreError` if the store fails,
 * `NetworkError` if it cannot be reached, and the signal's reason.
 *
 * A changing call that throws a `NetworkError` may have succeeded, or may still succeed. A commit names the state that
 * it replaces, so reading the state shows the result.
 */
export interface SnapshotStore {
  /** @throws ArchiveError when what is there is another tenant's */
  look(key: SnapshotKey, call: StoreCall): Promise<KeptSnapshots>;
  /** Opens the newest archive or an older version; undefined when that one is not there. */
  open(key: SnapshotKey, sha256: string, call: StoreCall): Promise<OpenArchive | undefined>;
  /**
   * Stores an archive, and then puts it in the place of the newest in one step. What was there stays as it is when
   * anything fails before that.
   *
   * @param archive its bytes; a failure of it fails the call
   * @throws StoreConflict when another state is there than the one that it replaces
   * @throws QuotaError when more would be kept than `most` allows
   */
  put(key: SnapshotKey, archive: AsyncIterable<Uint8Array>, call: PutCall): Promise<CommittedSnapshot>;
  /**
   * Finds out whether an archive of that size may take the place of the newest, by what is there at this moment.
   *
   * @throws QuotaError as `put` would do after all of it was sent
   */
  checkRoom(key: SnapshotKey, call: RoomCall): Promise<void>;
  /**
   * Makes an archive that is kept, of the same key or another, the newest.
   *
   * @returns undefined when that archive is not there
   * @throws StoreConflict as `put` does
   */
  adopt(
    key: SnapshotKey,
    from: SnapshotKey & { readonly sha256: string },
    call: CommitCall & { readonly createdAt: string },
  ): Promise<CommittedSnapshot | undefined>;
  /**
   * Deletes all archives of a key.
   *
   * @param call.replaces the one state that it may delete. @default whatever is there
   * @param call.unusedForMs deletes only what nothing has written or touched for so long, by the store's clock
   * @returns whether it was there and is gone now
   * @throws StoreConflict when another state is there
   */
  delete(
    key: SnapshotKey,
    call: StoreCall & { readonly replaces?: string | undefined; readonly unusedForMs?: number | undefined },
  ): Promise<boolean>;
  /** A page of archives, of each key the newest first. */
  list(filter: PageFilter & { readonly versions: boolean }, call: StoreCall): Promise<StorePage<StoreEntry>>;
  /** A page of the keys that there are archives of: all that some clients may ask for. */
  names(filter: PageFilter, call: StoreCall): Promise<StorePage<SnapshotKey>>;
  /** A page of when keys were last in use, also of those whose archive nothing that is recorded fits. */
  uses(filter: PageFilter, call: StoreCall): Promise<StorePage<StoreUse>>;
  /** Notes on archives that they are in use now; those that are not there stay so. */
  touch(keys: readonly SnapshotKey[], call: StoreCall): Promise<void>;
  /** What the store has; undefined where it has no bound. */
  space(call: StoreCall): Promise<{ readonly freeBytes: number; readonly totalBytes: number } | undefined>;
  /** What all archives take, with all versions; of a large store it may be some minutes old. */
  usage(call: StoreCall): Promise<StoreUsage>;
  /** Deletes what was left behind of calls that did not come to their end, more than a day ago. */
  tidy(call: StoreCall): Promise<void>;
  close(): void;
}

/** What archives take. */
export interface StoreUsage {
  /** Archives, of which each older version is one. */
  readonly archives: number;
  readonly bytes: number;
  /** By workload, of all tenants. */
  readonly workloads: Readonly<Record<string, { readonly archives: number; readonly bytes: number }>>;
}

/** Another state is there than the one that a call names: somebody else was first. */
export class StoreConflict extends Error {
  override readonly name = "StoreConflict";
}

/** A store that answers, and cannot do what it was asked; the message says why. */
export class StoreError extends Error {
  override readonly name: string = "StoreError";
  /** Whether the same call may do better after a while. */
  readonly isTransient: boolean;

  constructor(message: string, options: { cause?: unknown; isTransient: boolean }) {
    super(message, { cause: options.cause });
    this.isTransient = options.isTransient;
  }
}

/** A store that has no room; the message says what to do. */
export class StoreFullError extends StoreError {
  override readonly name = "StoreFullError";

  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, { ...options, isTransient: false });
  }
}

/** An archive that would take more than its tenant or workload may keep; the message says what to do. */
export class QuotaError extends StoreError {
  override readonly name = "QuotaError";

  constructor(message: string) {
    super(message, { isTransient: false });
  }
}
