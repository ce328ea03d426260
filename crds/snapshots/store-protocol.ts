import * as v from "valibot";
import { isUsageHour } from "../usage/usage-hour.ts";
import { isBatchName } from "../usage/usage-store.ts";
import { countSchema, type SnapshotMetadata, sha256Schema, snapshotMetadataSchema } from "./snapshot-metadata.ts";
import type { SnapshotVersion } from "./snapshot-store.ts";
import { versionNameRule } from "./version-names.ts";

/**
 * The protocol between the snapshots server and its clients, over HTTP.
 *
 * Every response has the header `MARK`, so that the response of another program, such as an API server in between, is
 * never mistaken for the server's. "There is none" is a 200, and never a 404.
 *
 * Checkpoints have a path of their own: a server of an earlier version would make them the newest archive.
 *
 * | request | response |
 * |---|---|
 * | `GET /v1/keys/<tenant>/<workload>` | `keptSchema` |
 * | `GET /v1/archives/<tenant>/<workload>/<sha256>` | the metadata as a line, then the archive; an empty line if there is none |
 * | the same with `?from=<offset>&to=<offset>` | the metadata and `partHeadSchema` as one line, then these bytes |
 * | `PUT /v1/uploads/<tenant>/<workload>/<id>` with an archive, or with `?from=<tenant>/<workload>/<sha256>` and no body | `receivedSchema` |
 * | `POST /v1/uploads/<tenant>/<workload>/<id>` with `ontoSchema` | `composedSchema`: the upload is a whole archive |
 * | `DELETE /v1/uploads/<tenant>/<workload>/<id>` | `{}`: the upload is deleted |
 * | `POST /v1/keys/<tenant>/<workload>` with `commitSchema` | `committedSchema`; 412 if the state is another one |
 * | `POST /v1/checkpoints/<tenant>/<workload>` with `commitSchema` of a checkpoint | as the row before |
 * | `DELETE /v1/checkpoints/<tenant>/<workload>?session=<uid>` | `deletedSchema` |
 * | `PUT /v1/version-names/<tenant>/<workload>/<name>?sha256=<sha256>` | `nameOutcomeSchema` |
 * | `DELETE /v1/version-names/<tenant>/<workload>/<name>` | `deletedSchema` |
 * | `POST /v1/room/<tenant>/<workload>` with `roomSchema` | `{}` if an archive of that size would be kept; else 507 |
 * | `DELETE /v1/keys/<tenant>/<workload>?replaces=<revision>&unused-for-ms=<n>` | `deletedSchema`; 412 as above |
 * | `GET /v1/list?limit=<keys>&after=<tenant>/<workload>&tenant=<tenant>&workload=<workload>&versions=true` | one entry per line, then `endSchema`; without a limit all entries |
 * | the same with `uses=true` | also the latest older version of each key without a newest archive |
 * | `GET /v1/names?limit=…`, as above, also with the token for names | one key per line, then `endSchema` |
 * | `PUT /v1/contexts/<workload>/<id>?most=<bytes>&volume=<bytes>` with a build context | `receivedSchema` |
 * | `POST /v1/contexts/<workload>` with `keepContextSchema` | `{}`: it becomes the current one, and others are deleted |
 * | `GET /v1/contexts/<workload>/<sha256>` | `contextHeadSchema` as a line, then the context; an empty line if there is none |
 * | `DELETE /v1/contexts/<workload>`, `DELETE /v1/contexts/<workload>/<id>` | `{}`: all are deleted; the upload is deleted |
 * | `PUT /v1/usage-records/<hour>/<batch>` with lines | `{}`: the usage records are on the disk |
 * | `GET /v1/usage-records/<hour>/<hour>` | `recordsHeadSchema` as a line, then the records from one hour to the other |
 * | `GET /v1/usage-hours` | `hoursSchema` |
 * | `GET /v1/usage-batches/<hour>`, `POST /v1/usage-batches/<hour>/drop` with `batchesSchema` | `batchesSchema`, `{}` |
 * | `GET /v1/usage-until`, `PUT /v1/usage-until/<hour>` | `recordedUntilSchema`, `{}` |
 * | `GET /v1/usage-marks/<mark>`, `PUT /v1/usage-marks/<mark>/<hour>` | `recordedUntilSchema`, `{}` |
 * | `POST /v1/touch` with keys, `POST /v1/tidy` | `{}` |
 * | `GET /v1/space`, `GET /v1/usage` | `spaceSchema`, `usageSchema` |
 */
export const MARK = "x-tenancy-snapshots";
/** The header with the client's token. An API server that forwards a request removes `Authorization`. */
export const TOKEN = "x-tenancy-token";
/**
 * Whether the store ever had its mark: set on uploads, and on the calls `usage-…` where it never had. Without it, these
 * get 412 from a volume that has no mark.
 */
export const MARKED = "x-tenancy-marked";

/** The id of an upload, and of its commit. */
export const UPLOAD_ID = /^[0-9a-f]{32}$/;

const metadata = v.pipe(
  snapshotMetadataSchema,
  v.transform((read): SnapshotMetadata => read),
);

export const keptAsSchema = v.picklist(["history", "replaced"]);

export const keptSchema = v.object({
  revision: v.string(),
  state: v.picklist(["kept", "none", "unmarked", "unrecorded"]),
  newest: v.optional(metadata),
  versions: v.array(
    v.pipe(
      v.object({ ...snapshotMetadataSchema.entries, kept: keptAsSchema }),
      v.transform((read): SnapshotVersion => read),
    ),
  ),
});

export const receivedSchema = v.object({
  /** Undefined if the archive of `?from` does not exist. */
  received: v.optional(v.object({ sha256: sha256Schema, sizeBytes: countSchema, metadata: v.optional(metadata) })),
});

const most = v.object({
  ...{ history: countSchema, replaced: countSchema },
  ...{ tenantBytes: v.optional(countSchema), workloadBytes: v.optional(countSchema) },
});

const table = v.object({ sizeBytes: countSchema, sha256: sha256Schema });
/** The entries of a kept archive that come before those of an upload. */
export const ontoSchema = v.object({
  base: sha256Schema,
  /** `EntryBits` of its table, in base64. */
  keeps: v.pipe(v.string(), v.base64()),
  /** Of the upload. */
  table,
});
export const composedSchema = v.object({ sha256: sha256Schema, sizeBytes: countSchema, table: v.optional(table) });

export const commitSchema = v.object({
  id: v.pipe(v.string(), v.regex(UPLOAD_ID)),
  replaces: v.string(),
  keep: v.optional(keptAsSchema),
  most,
  metadata,
});

export const roomSchema = v.object({
  sizeBytes: countSchema,
  keep: v.optional(keptAsSchema),
  most,
  session: v.optional(v.string()),
});

export const namedSchema = v.object({
  sha256: sha256Schema,
  name: v.pipe(v.string(), v.check(versionNameRule.accepts, versionNameRule.says)),
});
export const nameOutcomeSchema = v.object({ outcome: v.picklist(["named", "taken", "full", "gone"]) });
export const committedSchema = v.object({ revision: v.string(), metadata });
export const deletedSchema = v.object({ deleted: v.boolean() });
export const spaceSchema = v.object({ freeBytes: countSchema, totalBytes: countSchema });
export const usageSchema = v.object({
  ...{ archives: countSchema, bytes: countSchema },
  workloads: v.record(v.string(), v.object({ archives: countSchema, bytes: countSchema })),
});
export const partHeadSchema = v.object({ range: v.object({ from: countSchema, to: countSchema }) });
export const recordsHeadSchema = v.object({ sizeBytes: countSchema });
export const hoursSchema = v.object({ hours: v.array(v.pipe(v.string(), v.check(isUsageHour))) });
export const batchesSchema = v.object({ names: v.array(v.pipe(v.string(), v.check(isBatchName))) });
export const recordedUntilSchema = v.object({ until: v.optional(v.pipe(v.string(), v.check(isUsageHour))) });
export const contextHeadSchema = v.object({ sizeBytes: countSchema });
export const keepContextSchema = v.object({
  id: v.pipe(v.string(), v.regex(UPLOAD_ID)),
  sha256: sha256Schema,
  /** Another context that is not deleted. */
  other: v.optional(sha256Schema),
});
export const nameSchema = v.object({ tenantId: v.string(), workloadRef: v.string() });
export const endSchema = v.object({
  /** The number of lines before this one. */
  end: countSchema,
  /** The `after` of the next page; undefined at the end of the list. */
  next: v.optional(nameSchema),
});
export const touchSchema = v.array(nameSchema);

export const entrySchema = v.object({
  tenantId: v.string(),
  workloadRef: v.string(),
  version: v.optional(v.string()),
  kept: v.optional(keptAsSchema),
  sizeBytes: countSchema,
  usedAt: v.string(),
  metadata: v.optional(metadata),
});

export const errorSchema = v.object({
  error: v.string(),
  /** Which error the client throws. */
  kind: v.picklist(["conflict", "archive", "store", "quota", "full", "request"]),
  /** The reason of an ArchiveError. */
  reason: v.optional(v.picklist(["Corrupt", "Hostile", "TooLarge", "Foreign", "NoVersion"])),
  isTransient: v.optional(v.boolean()),
});
export type StoreRefusal = v.InferOutput<typeof errorSchema>;
