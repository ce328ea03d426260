import * as v from "valibot";
import type { TableMark } from "../archive/archive-table.ts";
import { type Descent, lineageSchema } from "./lineage.ts";

export const countSchema = v.pipe(v.number(), v.integer(), v.minValue(0));
export const sha256Schema = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));

/** The metadata that is written with an archive. Other fields are of other versions of the program, and are ignored. */
export const snapshotMetadataSchema = v.object({
  sha256: sha256Schema,
  sizeBytes: countSchema,
  tenantId: v.string(),
  workloadRef: v.string(),
  uid: countSchema,
  gid: countSchema,
  createdAt: v.pipe(v.string(), v.isoTimestamp()),
  entries: countSchema,
  contentBytes: countSchema,
  overlayDirs: v.array(v.string()),
  podUid: v.optional(v.string()),
  kind: v.optional(v.literal("checkpoint")),
  session: v.optional(v.string()),
  continues: v.optional(sha256Schema),
  checkpointOf: v.optional(v.pipe(v.array(v.string()), v.readonly())),
  names: v.optional(v.pipe(v.array(v.string()), v.readonly())),
  table: v.optional(v.object({ sizeBytes: countSchema, sha256: sha256Schema })),
  lineage: v.optional(lineageSchema),
  copied: v.optional(v.literal(true)),
  sandbox: v.optional(v.string()),
});

/** The metadata of an archive. */
export interface SnapshotMetadata extends Descent {
  /** The archive's SHA-256, in hexadecimal digits. */
  readonly sha256: string;
  /** Bytes of the archive. */
  readonly sizeBytes: number;
  readonly tenantId: string;
  readonly workloadRef: string;
  /** The user that the workload ran as. The files are restored as the same user. */
  readonly uid: number;
  readonly gid: number;
  /** ISO 8601 time of the save. */
  readonly createdAt: string;
  readonly entries: number;
  /** Bytes of the archive before its compression. */
  readonly contentBytes: number;
  readonly overlayDirs: readonly string[];
  /**
   * The UID of the pod that was saved, followed by a dot and the id of its overlay directories if they have one.
   * Undefined for archives that older operators wrote.
   */
  readonly podUid?: string | undefined;
  /**
   * A checkpoint was saved while its session went on. It is an older version beside the newest archive, and the next
   * save of its session replaces it.
   */
  readonly kind?: "checkpoint" | undefined;
  /** The session that was saved, by the uid of its claim. Undefined for archives that older operators wrote. */
  readonly session?: string | undefined;
  /** Of a checkpoint: the SHA-256 of the archive that its session began with. Undefined if it began without files. */
  readonly continues?: string | undefined;
  /** The sessions whose last checkpoint has the same files: they go on from this version after the loss of a pod. */
  readonly checkpointOf?: readonly string[] | undefined;
  /** What a person has named the archive. Undefined without a name. */
  readonly names?: readonly string[] | undefined;
  /** What `sandboxToKeep` says of the session that was saved, or that a copy is for. Undefined for no sandbox. */
  readonly sandbox?: string | undefined;
  /** The table at the archive's end. Undefined for archives of older versions, and of more than 200 000 entries. */
  readonly table?: TableMark | undefined;
}

/** Reads the line with an archive's metadata; undefined if it cannot be read. */
export function parseSnapshotMetadata(line: string): SnapshotMetadata | undefined {
  try {
    return v.parse(snapshotMetadataSchema, JSON.parse(line));
  } catch {
    return undefined;
  }
}
