import * as v from "valibot";
import { type Descent, lineageSchema } from "./lineage.ts";

/** What is written beside an archive; what else is there is another version's. */
export const snapshotMetadataSchema = v.object({
  sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  sizeBytes: v.pipe(v.number(), v.integer(), v.minValue(0)),
  tenantId: v.string(),
  workloadRef: v.string(),
  uid: v.pipe(v.number(), v.integer(), v.minValue(0)),
  gid: v.pipe(v.number(), v.integer(), v.minValue(0)),
  createdAt: v.pipe(v.string(), v.isoTimestamp()),
  entries: v.pipe(v.number(), v.integer(), v.minValue(0)),
  contentBytes: v.pipe(v.number(), v.integer(), v.minValue(0)),
  overlayDirs: v.array(v.string()),
  podUid: v.optional(v.string()),
  lineage: v.optional(lineageSchema),
  copied: v.optional(v.literal(true)),
});

/** What is kept beside an archive. */
export interface SnapshotMetadata extends Descent {
  /** Of the archive, in hexadecimal digits. */
  readonly sha256: string;
  /** Bytes of the archive. */
  readonly sizeBytes: number;
  readonly tenantId: string;
  readonly workloadRef: string;
  /** As whom the workload ran whose files these are, so that they can be restored as the same. */
  readonly uid: number;
  readonly gid: number;
  /** ISO 8601 time of the save. */
  readonly createdAt: string;
  readonly entries: number;
  /** Bytes of the archive before its compression. */
  readonly contentBytes: number;
  readonly overlayDirs: readonly string[];
  /**
   * The pod that it was saved from, and after a dot the id of its overlay directories where it has one; unknown of
   * archives that older operators wrote.
   */
  readonly podUid?: string | undefined;
}

/** Reads one line of an archive's metadata; undefined when the line is something else. */
export function parseSnapshotMetadata(line: string): SnapshotMetadata | undefined {
  try {
    return v.parse(snapshotMetadataSchema, JSON.parse(line));
  } catch {
    return undefined;
  }
}
