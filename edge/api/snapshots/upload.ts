import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import { createArchivePacker } from "../../../crds/archive/archive-packer.ts";
import { overlayRoots } from "../../../crds/archive/overlay-roots.ts";
import { withDefaults } from "../../../crds/defaults.ts";
import { quote } from "../../../crds/quote.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import { workloadProblems } from "../../../crds/schema/validate-workload.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { tenantUse } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { queryText } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import { readUpload, UPLOAD_LIMIT_MS } from "../../http/upload.ts";
import type { ApiRoute } from "../api-route.ts";
import { readUploadedArchive } from "../uploaded-archive.ts";
import { readWorkload } from "../workloads.ts";
import { refuseWhileClaimed } from "./claims-of-snapshot.ts";
import { askStore, lookAtSnapshots, mostKeptOf, type SnapshotServices } from "./store.ts";
import { untilStore } from "./until-store.ts";
import {
  changed,
  digitsRule,
  keyOf,
  refuseOtherThan,
  refusePresent,
  type VersionRecord,
  versionRecord,
} from "./versions.ts";

export interface UploadServices extends SnapshotServices {
  /** Maximum size of an uploaded archive in bytes. */
  readonly snapshotLimitBytes: number;
}

/** Each is checked and compressed again. */
const UPLOADS_AT_ONCE = 2;
/** Owner of restored files that have no known owner. */
const DEFAULT_OWNER = 65532;

const idRule = {
  accepts: (value: string): boolean => /^(0|[1-9][0-9]{0,9})$/.test(value) && Number(value) < 2 ** 31,
  says: "a user or group id is a whole number below 2147483648",
} as const;
const idSchema = { type: "integer", minimum: 0, maximum: 2 ** 31 - 1 } as const;

/** `PUT /api/v1/tenants/{id}/snapshots/{workload}/archive`. */
export function uploadRoutes(services: UploadServices): ApiRoute[] {
  let uploads = 0;
  return [
    {
      method: "PUT",
      path: "/api/v1/tenants/:id/snapshots/:workload/archive",
      access: tenantUse,
      summary: "Upload files as a tenant's newest snapshot",
      description:
        "A tar or tar.gz, detected by its first bytes, with the workload's overlay directories, as in a download. Devices, `..` and paths outside these directories are refused. The tenant must have no claim on the workload. The next claim with `resume` restores these files.",
      query: {
        replaces: {
          ...{ type: "string", pattern: pattern.archiveVersion },
          description: "The current newest snapshot, which stays as an older version.",
        },
        uid: {
          ...idSchema,
          description: "Owner of the restored files; by default that of the newest snapshot, or 65532.",
        },
        gid: { ...idSchema, description: "Group of the restored files, with the same default." },
      },
      rawBody: ["application/x-tar", "application/gzip"],
      status: 201,
      answer: "SnapshotVersion",
      errors: [404, 408, 409, 413, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const key = keyOf(request);
        const replaces = queryText(request, "replaces", digitsRule);
        const [uid, gid] = ["uid", "gid"].map((name) => queryText(request, name, idRule));
        if (uploads >= UPLOADS_AT_ONCE) {
          throw new HttpError(503, `${UPLOADS_AT_ONCE} snapshots are being uploaded already; try again soon`, {
            headers: { "retry-after": "5" },
          });
        }
        uploads += 1;
        mayBeSilent?.();
        try {
          const acting = { ...services, clientGone: clientGone ?? request.signal };
          return jsonResponse(await upload(request, { key, replaces, uid, gid }, acting), { status: 201 });
        } finally {
          uploads -= 1;
        }
      },
    },
  ];
}

async function upload(
  request: Request,
  to: {
    readonly key: SnapshotKey;
    readonly replaces: string | undefined;
    readonly uid: string | undefined;
    readonly gid: string | undefined;
  },
  services: UploadServices & { clientGone: AbortSignal },
): Promise<VersionRecord> {
  const { key, replaces } = to;
  const { clock, clientGone, snapshotLimitBytes } = services;
  const most = mostKeptOf(key, services);
  const workload = await readWorkload(key.workloadRef, services);
  // An API server before 1.25 accepts invalid workloads, and the operator may not have checked it yet.
  const problem = workloadProblems(workload.spec, { allowUnknownFields: true }).find((said) =>
    said.startsWith("spec.filesystem.overlayDirs"),
  );
  if (problem !== undefined) throw new HttpError(409, `workload ${quote(key.workloadRef)} is not valid: ${problem}`);
  const { filesystem, resources } = withDefaults(workload.spec);
  const { overlayDirs } = filesystem;
  if (overlayDirs.length === 0) {
    throw new HttpError(409, `workload ${quote(key.workloadRef)} saves no files: it has no filesystem.overlayDirs`);
  }
  await refuseWhileClaimed(key, services);
  await untilStore(services);
  const present = await lookAtSnapshots(key, services, clientGone);
  if (present === undefined) throw new HttpError(503, "the snapshots volume was deleted; try again");
  refusePresent(key, present, replaces);
  refuseOtherThan(replaces, key, present);
  const body = readUpload(request, { limit: snapshotLimitBytes, clientGone, clock });
  const roots = overlayRoots(overlayDirs);
  const packer = createArchivePacker();
  const check = createArchiveCheck({ roots, limits: archiveLimits(resources), takesPax: true, onEntry: packer.begin });
  const archive = readUploadedArchive(body.chunks, {
    ...{ check, mustBe: `an archive of ${overlayDirs.join(" and ")}` },
    pack: (tar) => refuseOver(snapshotLimitBytes, packer.pack(tar)),
  });
  const describe = () => ({
    uid: Number(to.uid ?? present.newest?.uid ?? DEFAULT_OWNER),
    gid: Number(to.gid ?? present.newest?.gid ?? DEFAULT_OWNER),
    ...{ createdAt: new Date(clock.now()).toISOString(), overlayDirs },
    ...{ entries: check.contents.entries, contentBytes: check.contents.bytes, table: packer.table() },
  });
  const put = { replaces: present.revision, keep: "replaced", most, describe } as const;
  try {
    const committed = await askStore(({ archives }, call) => archives.put(key, archive.content, { ...call, ...put }), {
      ...services,
      limitMs: UPLOAD_LIMIT_MS,
    });
    return versionRecord(key, committed.metadata);
  } catch (error) {
    const why = archive.failure(error);
    throw why instanceof StoreConflict ? changed(key, undefined) : why;
  } finally {
    body.close();
  }
}

/** An upload with stronger compression than ours can grow to several times its size. */
async function* refuseOver(limitBytes: number, packed: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of packed) {
    bytes += chunk.length;
    if (bytes > limitBytes) {
      const limit = `${limitBytes} bytes, the limit of one archive (TENANCY_SNAPSHOT_LIMIT)`;
      throw new ArchiveError("TooLarge", `recompressed, it is larger than ${limit}`);
    }
    yield chunk;
  }
}
