import type { SnapshotKey } from "./snapshot-key.ts";

/** Where the archive is on the snapshots volume, as users see it (spec.md, section 2.5). */
export function snapshotPath({ tenantId, workloadRef }: SnapshotKey): string {
  return `/snapshots/${tenantId}/${workloadRef}.tar.gz`;
}
