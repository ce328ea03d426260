import type { UnrecordedArchive } from "../../crds/snapshots/parse-snapshot-list.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { snapshotPath } from "../../crds/snapshots/snapshot-path.ts";

/** The snapshot record (spec.md, section 2.5), with what is known of the archive. */
export interface SnapshotRecord {
  tenantId: string;
  workloadRef: string;
  /** On the snapshots volume. */
  path: string;
  sizeBytes: number;
  /** In hexadecimal digits; absent where what was recorded beside the archive is lost or does not fit it. */
  sha256?: string;
  /** ISO 8601. */
  createdAt: string;
}

/** Shows an archive as the REST API does. */
export function snapshotRecord(archive: SnapshotMetadata | UnrecordedArchive): SnapshotRecord {
  const { tenantId, workloadRef, sizeBytes } = archive;
  return {
    tenantId,
    workloadRef,
    path: snapshotPath({ tenantId, workloadRef }),
    sizeBytes,
    ...("sha256" in archive && { sha256: archive.sha256 }),
    createdAt: "createdAt" in archive ? archive.createdAt : archive.usedAt,
  };
}

/** The order of lists: by tenant, then by workload. */
export function bySnapshotKey(a: SnapshotKey, b: SnapshotKey): number {
  if (a.tenantId !== b.tenantId) return a.tenantId < b.tenantId ? -1 : 1;
  return a.workloadRef < b.workloadRef ? -1 : 1;
}
