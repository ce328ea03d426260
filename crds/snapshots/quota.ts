import type { SnapshotKey } from "./snapshot-key.ts";
import { type KeptAs, type MostKept, QuotaError } from "./snapshot-store.ts";
import { isNamed } from "./version-names.ts";

interface Version {
  readonly sha256?: string | undefined;
  readonly sizeBytes: number;
  readonly kept: KeptAs;
  readonly names?: readonly string[] | undefined;
}

/** The bytes of the archives of other keys. */
export interface OtherBytes {
  readonly ofTenant: number;
  readonly ofWorkload: number;
}

/**
 * The bytes that each archive takes in addition to those before it. An archive that is both the newest and an older
 * version is stored once.
 *
 * @param sameOf gives archives that are stored once the same name; undefined if that is not known
 */
export function bytesOfEach<T extends { readonly sizeBytes: number }>(
  archives: readonly T[],
  sameOf: (archive: T) => string | undefined,
): number[] {
  const seen = new Set<string>();
  return archives.map((archive) => {
    const same = sameOf(archive);
    if (same === undefined) return archive.sizeBytes;
    if (seen.has(same)) return 0;
    seen.add(same);
    return archive.sizeBytes;
  });
}

/** The bytes that the archives of one key take. */
export function storedBytes(archives: readonly Pick<Version, "sha256" | "sizeBytes">[]): number {
  return bytesOfEach(archives, ({ sha256 }) => sha256).reduce((sum, bytes) => sum + bytes, 0);
}

/**
 * The older versions that stay beside a new archive, so that tenant and workload stay within their limits. As many
 * versions of kind `history` as necessary go, the oldest first; those of kind `replaced` and named ones stay. A commit
 * after which the key takes no more than before is always allowed.
 *
 * @param state.sha256 of the new archive; undefined if it is not known yet
 * @param state.older the older versions that stay without a limit, the latest first
 * @param state.bytesBefore the bytes of the key's archives before the commit
 * @throws QuotaError that says what to do
 */
export function withinQuota<T extends Version>(
  key: SnapshotKey,
  {
    most,
    ...state
  }: Pick<Version, "sha256" | "sizeBytes"> & {
    older: readonly T[];
    bytesBefore: number;
    others: OtherBytes;
    most: MostKept;
  },
): T[] {
  const { sha256, sizeBytes, bytesBefore, others } = state;
  const { tenantBytes = Number.POSITIVE_INFINITY, workloadBytes = Number.POSITIVE_INFINITY } = most;
  const may = Math.max(bytesBefore, Math.min(tenantBytes - others.ofTenant, workloadBytes - others.ofWorkload));
  const staying = [...state.older];
  const bytes = (): number => storedBytes([{ sha256, sizeBytes }, ...staying]);
  const takesRoom = (version: T): boolean => sha256 === undefined || version.sha256 !== sha256;
  const mayGo = (version: T): boolean => version.kept === "history" && !isNamed(version) && takesRoom(version);
  while (bytes() > may) {
    const oldest = staying.findLastIndex(mayGo);
    if (oldest < 0) throw refusal(key, { bytes: bytes(), others, tenantBytes, workloadBytes });
    staying.splice(oldest, 1);
  }
  return staying;
}

/**
 * Checks that a checkpoint fits beside everything that stays: it replaces no version.
 *
 * @param state.staying the archives that stay beside it
 * @param state.bytesBefore the bytes of the key's archives before the commit
 * @throws QuotaError as {@link withinQuota} does
 */
export function checkCheckpointQuota(
  key: SnapshotKey,
  {
    staying,
    ...state
  }: Pick<Version, "sha256" | "sizeBytes"> & {
    staying: readonly Pick<Version, "sha256" | "sizeBytes">[];
    bytesBefore: number;
    others: OtherBytes;
    most: MostKept;
  },
): void {
  const older = staying.map(({ sha256, sizeBytes }) => ({ sha256, sizeBytes, kept: "replaced" as const }));
  withinQuota(key, { ...state, older });
}

function refusal(
  { tenantId, workloadRef }: SnapshotKey,
  given: { bytes: number; others: OtherBytes; tenantBytes: number; workloadBytes: number },
): QuotaError {
  const { bytes, others, tenantBytes, workloadBytes } = given;
  const ofTenant = others.ofTenant + bytes;
  const why =
    ofTenant > tenantBytes
      ? `${shown(ofTenant, tenantBytes)} (TENANCY_SNAPSHOT_TENANT_LIMIT, or snapshotMb of its quota) for tenant "${tenantId}": delete snapshots of other workloads that it does not need, remove names of versions, or raise the limit`
      : `${shown(others.ofWorkload + bytes, workloadBytes)} (TENANCY_SNAPSHOT_WORKLOAD_LIMIT) for workload "${workloadRef}": delete snapshots of tenants that do not need them, remove names of versions, or raise the limit`;
  return new QuotaError(`Cannot store the archive: it would take ${why}`);
}

/** "1.2 GiB of 1 GiB", in the largest unit in which the limit is at least 1. */
function shown(bytes: number, limit: number): string {
  const power = Math.max(0, Math.min(4, Math.floor(Math.log2(Math.max(limit, 1)) / 10)));
  const unit = ["bytes", "KiB", "MiB", "GiB", "TiB"][power];
  const of = (value: number): number => Math.ceil((value / 1024 ** power) * 100) / 100;
  return `${of(bytes)} ${unit} of ${of(limit)} ${unit}`;
}
