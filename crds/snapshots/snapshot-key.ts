import { isObjectName, isTenantId } from "../names.ts";

/** Whose files of which workload. */
export interface SnapshotKey {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/**
 * Checks that both are parts of a path that reach no other tenant's: neither holds a slash or begins with a dot.
 *
 * @throws TypeError when one is not
 */
export function checkSnapshotKey({ tenantId, workloadRef }: SnapshotKey): void {
  if (!isTenantId(tenantId)) throw new TypeError(`Cannot keep files of the tenant "${tenantId}": it is no tenant id`);
  if (!isObjectName(workloadRef)) {
    throw new TypeError(`Cannot keep files of the workload "${workloadRef}": it is no name of a workload`);
  }
}

/** Where the archive is on the snapshots volume, as users see it: the newest, or an older version. */
export function snapshotPath({ tenantId, workloadRef, version }: SnapshotKey & { version?: string }): string {
  if (version !== undefined) return `/snapshots/${tenantId}/.versions/${workloadRef}/${version}.tar.gz`;
  return `/snapshots/${tenantId}/${workloadRef}.tar.gz`;
}

/** What of an archive's SHA-256 names it: in a version of a claim, and in the names of files on the volume. */
export function archiveDigits(sha256: string): string {
  return sha256.slice(0, 16);
}
