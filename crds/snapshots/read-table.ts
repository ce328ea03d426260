import { type ArchiveTable, readTable, type TableMark } from "../archive/archive-table.ts";
import type { SnapshotKey } from "./snapshot-key.ts";
import type { SnapshotMetadata } from "./snapshot-metadata.ts";
import type { SnapshotStore, StoreCall } from "./snapshot-store.ts";

/**
 * The table of a kept archive; undefined if the archive does not exist.
 *
 * @throws ArchiveError if it is damaged; as `open` does
 */
export async function readArchiveTable(
  archives: Pick<SnapshotStore, "open">,
  archive: SnapshotKey & Pick<SnapshotMetadata, "sha256" | "sizeBytes"> & { readonly table: TableMark },
  call: StoreCall,
): Promise<ArchiveTable | undefined> {
  const { tenantId, workloadRef, sha256, sizeBytes, table: mark } = archive;
  const range = { from: sizeBytes - mark.sizeBytes, to: sizeBytes };
  const opened = await archives.open({ tenantId, workloadRef }, sha256, { ...call, range });
  if (opened === undefined) return undefined;
  try {
    const parts: Uint8Array[] = [];
    for await (const part of opened.content) parts.push(part);
    return await readTable(Buffer.concat(parts), mark);
  } finally {
    opened.close();
  }
}
