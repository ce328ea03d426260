import type { SnapshotKey } from "./snapshot-key.ts";
import { type KeptAs, type MostKept, QuotaError } from "./snapshot-store.ts";

interface Version {
  readonly sizeBytes: number;
  readonly kept: KeptAs;
}

/** Bytes of archives of other keys. */
export interface OtherBytes {
  readonly ofTenant: number;
  readonly ofWorkload: number;
}

/**
 * Which older versions stay beside a new archive, so that tenant and workload take no more than they may: history goes
 * as far as that is needed, the oldest first, and what was replaced stays. A commit that does not add to what is there
 * is never too much.
 *
 * @param state.older those that would stay otherwise, the latest first
 * @param state.bytesBefore of the key's archives before the commit
 * @throws QuotaError that says what to do
 */
export function withinQuota<T extends Version>(
  key: SnapshotKey,
  {
    most,
    ...state
  }: { sizeBytes: number; older: readonly T[]; bytesBefore: number; others: OtherBytes; most: MostKept },
): T[] {
  const { sizeBytes, bytesBefore, others } = state;
  const { tenantBytes = Number.POSITIVE_INFINITY, workloadBytes = Number.POSITIVE_INFINITY } = most;
  const may = Math.max(bytesBefore, Math.min(tenantBytes - others.ofTenant, workloadBytes - others.ofWorkload));
  const staying = [...state.older];
  const bytes = (): number => staying.reduce((sum, version) => sum + version.sizeBytes, sizeBytes);
  while (bytes() > may) {
    const oldest = staying.findLastIndex(({ kept }) => kept === "history");
    if (oldest < 0) throw refusal(key, { bytes: bytes(), others, tenantBytes, workloadBytes });
    staying.splice(oldest, 1);
  }
  return staying;
}

function refusal(
  { tenantId, workloadRef }: SnapshotKey,
  given: { bytes: number; others: OtherBytes; tenantBytes: number; workloadBytes: number },
): QuotaError {
  const { bytes, others, tenantBytes, workloadBytes } = given;
  const ofTenant = others.ofTenant + bytes;
  const why =
    ofTenant > tenantBytes
      ? `${shown(ofTenant, tenantBytes)} (TENANCY_SNAPSHOT_TENANT_LIMIT) for tenant "${tenantId}": delete snapshots of other workloads that it does not need, or raise the limit`
      : `${shown(others.ofWorkload + bytes, workloadBytes)} (TENANCY_SNAPSHOT_WORKLOAD_LIMIT) for workload "${workloadRef}": delete snapshots of tenants that do not need them, or raise the limit`;
  return new QuotaError(`Cannot store the archive: it would take ${why}`);
}

/** "1.2 GiB of 1 GiB", in the largest unit of which the limit is at least one. */
function shown(bytes: number, limit: number): string {
  const power = Math.max(0, Math.min(4, Math.floor(Math.log2(Math.max(limit, 1)) / 10)));
  const unit = ["bytes", "KiB", "MiB", "GiB", "TiB"][power];
  const of = (value: number): number => Math.ceil((value / 1024 ** power) * 100) / 100;
  return `${of(bytes)} ${unit} of ${of(limit)} ${unit}`;
}
