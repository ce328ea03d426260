import type { SnapshotKey } from "./snapshot-key.ts";

/** Where the archive is on the snapshots volume, as users see it: the newest, or an older version. */
export function snapshotPath({ tenantId, workloadRef, version }: SnapshotKey & { version?: string }): string {
  if (version !== undefined) return `/snapshots/${tenantId}/.versions/${workloadRef}/${version}.tar.gz`;
  return `/snapshots/${tenantId}/${workloadRef}.tar.gz`;
}
