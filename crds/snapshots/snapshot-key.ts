import { isObjectName, isTenantId } from "../names.ts";

/** The tenant and the workload that files belong to. */
export interface SnapshotKey {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/**
 * Checks that a path made of both cannot lead to another tenant's files: neither contains a slash or begins with a dot.
 *
 * @throws TypeError if one of them is not valid
 */
export function checkSnapshotKey({ tenantId, workloadRef }: SnapshotKey): void {
  if (!isTenantId(tenantId))
    throw new TypeError(`Cannot keep files of the tenant "${tenantId}": that is not a valid tenant id`);
  if (!isObjectName(workloadRef)) {
    throw new TypeError(`Cannot keep files of the workload "${workloadRef}": that is not a valid name of a workload`);
  }
}

/** The path of the newest archive or an older version on the snapshots volume, as users see it. */
export function snapshotPath({ tenantId, workloadRef, version }: SnapshotKey & { version?: string }): string {
  if (version !== undefined) return `/snapshots/${tenantId}/.versions/${workloadRef}/${version}.tar.gz`;
  return `/snapshots/${tenantId}/${workloadRef}.tar.gz`;
}

/** The digits of an archive's SHA-256 that name it, in a version of a claim and in the names of files on the volume. */
export function archiveDigits(sha256: string): string {
  return sha256.slice(0, 16);
}
