import type { ListedSnapshot, UnrecordedArchive } from "../../../crds/snapshots/parse-snapshot-list.ts";
import { snapshotPath } from "../../../crds/snapshots/snapshot-path.ts";

/** The snapshot record, with what is known of the archive. */
export interface SnapshotRecord {
  tenantId: string;
  workloadRef: string;
  /** On the snapshots volume. */
  path: string;
  /** Of one that is not the newest: what a claim names it by. */
  version?: string;
  sizeBytes: number;
  /** In hexadecimal digits; absent where what was recorded beside the archive is lost or does not fit it. */
  sha256?: string;
  /** ISO 8601. */
  createdAt: string;
}

/** Shows an archive as the REST API does. */
export function snapshotRecord(archive: ListedSnapshot | UnrecordedArchive): SnapshotRecord {
  const { tenantId, workloadRef, sizeBytes, version } = archive;
  const place = { tenantId, workloadRef, ...(version !== undefined && { version }) };
  return {
    tenantId,
    workloadRef,
    path: snapshotPath(place),
    ...(version !== undefined && { version }),
    sizeBytes,
    ...("sha256" in archive && { sha256: archive.sha256 }),
    createdAt: "createdAt" in archive ? archive.createdAt : archive.usedAt,
  };
}

/** The order of lists: by tenant, then by workload, the newest first. */
export function bySnapshotKey(a: SnapshotRecord, b: SnapshotRecord): number {
  if (a.tenantId !== b.tenantId) return a.tenantId < b.tenantId ? -1 : 1;
  if (a.workloadRef !== b.workloadRef) return a.workloadRef < b.workloadRef ? -1 : 1;
  if ((a.version === undefined) !== (b.version === undefined)) return a.version === undefined ? -1 : 1;
  return a.createdAt > b.createdAt ? -1 : 1;
}
