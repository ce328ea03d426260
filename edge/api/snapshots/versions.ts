import * as v from "valibot";
import { workloads } from "../../../crds/kinds.ts";
import { quote } from "../../../crds/quote.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import { patternHints } from "../../../crds/schema/schema-problems.ts";
import { allArchives } from "../../../crds/snapshots/kept-versions.ts";
import { archiveDigits, type SnapshotKey, snapshotPath } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { type KeptAs, type KeptSnapshots, StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { platformOnly, tenantUse, tenantView } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { pathParam, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import { readJson } from "../../http/read-json.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { type ApiRoute, bodySchema } from "../api-route.ts";
import { readWorkload } from "../workloads.ts";
import { refuseWhileClaimed } from "./claims-of-snapshot.ts";
import { askStore, lookAtSnapshots, mostKeptOf, noSnapshot, type SnapshotServices } from "./store.ts";

const digits = v.pipe(
  v.string(),
  v.regex(new RegExp(pattern.archiveVersion), `must be ${patternHints[pattern.archiveVersion]}`),
);
const version = v.pipe(v.string(), v.regex(new RegExp(pattern.archive), `must be ${patternHints[pattern.archive]}`));
const newest = v.optional(
  v.pipe(
    digits,
    v.description("The newest version that the caller knows: the response is 409 if another one is the newest."),
  ),
);
const rollbackBody = v.strictObject({
  version: v.pipe(version, v.description("The SHA-256 of the version, its first 16 digits, or its name.")),
  newest,
});
const copyBody = v.strictObject({
  tenantId: v.pipe(
    v.string(),
    v.regex(new RegExp(pattern.tenantId), tenantIdRule.says),
    v.maxLength(63, tenantIdRule.says),
    v.description("The tenant who receives the copy."),
  ),
  workload: v.optional(
    v.pipe(
      v.string(),
      v.regex(new RegExp(pattern.subdomain), workloadNameRule.says),
      v.maxLength(63, workloadNameRule.says),
      v.description("The workload of the copy; the same by default."),
    ),
  ),
  version: v.optional(v.pipe(version, v.description("The version to copy, as in a rollback; the newest by default."))),
  replaces: v.optional(
    v.pipe(digits, v.description("The receiver's current newest snapshot, which stays as an older version.")),
  ),
});

const PATH = "/api/v1/tenants/:id/snapshots/:workload";

/** `GET …/versions`, `POST …/rollback` and `POST …/copy` of a tenant's snapshot. */
export function versionRoutes(services: SnapshotServices): ApiRoute[] {
  return [
    {
      method: "GET",
      path: `${PATH}/versions`,
      access: tenantView,
      summary: "All versions of a tenant's saved files",
      description: "Newest first. A claim restores one with `resume: {version}`.",
      answer: ["SnapshotVersion"],
      errors: [404, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const key = keyOf(request);
        mayBeSilent?.();
        const kept = await lookAtSnapshots(key, services, clientGone ?? request.signal);
        const versions = kept === undefined ? [] : versionsOf(key, kept);
        if (versions.length === 0) throw noSnapshot(key);
        return jsonResponse(versions);
      },
    },
    {
      method: "POST",
      path: `${PATH}/rollback`,
      access: tenantUse,
      summary: "Make an older version of a tenant's files the newest",
      description:
        "The tenant must have no claim on the workload. The current newest version stays as an older one, and the next claim with `resume` restores this one.",
      body: bodySchema(rollbackBody),
      answer: "SnapshotVersion",
      errors: [404, 409, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const key = keyOf(request);
        const body = await readJson(request, rollbackBody);
        request.audit?.about({ version: body.version });
        mayBeSilent?.();
        return jsonResponse(await rollBack(key, body, { ...services, clientGone: clientGone ?? request.signal }));
      },
    },
    {
      method: "POST",
      path: `${PATH}/copy`,
      access: platformOnly,
      summary: "Copy a tenant's files to another tenant or workload",
      description:
        "The copy is independent. The receiver must have no claim on the workload during the copy; the source may be in use. An Event `SnapshotCopied` of the workload names both tenants.",
      body: bodySchema(copyBody),
      status: 201,
      answer: "SnapshotVersion",
      errors: [404, 409, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const key = keyOf(request);
        const body = await readJson(request, copyBody);
        request.audit?.about({ version: body.version, toTenant: body.tenantId, toWorkload: body.workload });
        mayBeSilent?.();
        const copied = await copySnapshot(key, body, { ...services, clientGone: clientGone ?? request.signal });
        return jsonResponse(copied, { status: 201 });
      },
    },
  ];
}

const archive = new RegExp(pattern.archive);

/** Rule of a query parameter that names a version. */
export const versionRule = {
  accepts: (value: string): boolean => archive.test(value),
  says: "a version is a SHA-256 in lower-case hexadecimal digits, the first 16 of them, or a name",
} as const;

const archiveVersion = new RegExp(pattern.archiveVersion);

/** Rule of a query parameter that only the digits of a version can be. */
export const digitsRule = {
  accepts: (value: string): boolean => archiveVersion.test(value),
  says: "a version is a SHA-256 in lower-case hexadecimal digits, or the first 16 of them",
} as const;

export function keyOf(request: RoutedRequest): SnapshotKey {
  return {
    tenantId: pathParam(request, "id", tenantIdRule),
    workloadRef: pathParam(request, "workload", workloadNameRule),
  };
}

/** A version with its metadata. */
export interface VersionRecord {
  readonly tenantId: string;
  readonly workloadRef: string;
  readonly path: string;
  readonly version: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly createdAt: string;
  readonly newest: boolean;
  readonly kept?: KeptAs;
  readonly kind?: "checkpoint";
  readonly names?: readonly string[];
}

export function versionsOf(key: SnapshotKey, { newest: first, versions }: KeptSnapshots): VersionRecord[] {
  const older = versions.map((one) => versionRecord(key, one, one.kept));
  return first === undefined ? older : [versionRecord(key, first), ...older];
}

/** @param kept why an older version is kept; undefined for the newest */
export function versionRecord(
  { tenantId, workloadRef }: SnapshotKey,
  { sha256, sizeBytes, createdAt, kind, names }: SnapshotMetadata,
  kept?: KeptAs,
): VersionRecord {
  const version = archiveDigits(sha256);
  return {
    tenantId,
    workloadRef,
    path: snapshotPath({ tenantId, workloadRef, ...(kept !== undefined && { version }) }),
    ...{ version, sizeBytes, sha256, createdAt, newest: kept === undefined },
    ...(kept !== undefined && { kept }),
    ...(kind !== undefined && { kind }),
    ...(names !== undefined && { names }),
  };
}

type Acting = SnapshotServices & { readonly clientGone: AbortSignal | undefined };

async function rollBack(
  key: SnapshotKey,
  { version, newest: expected }: v.InferOutput<typeof rollbackBody>,
  services: Acting,
): Promise<VersionRecord> {
  await refuseWhileClaimed(key, services);
  const kept = await lookAtSnapshots(key, services, services.clientGone);
  const wanted = findVersion(key, kept, version);
  refuseOtherThan(expected, key, kept);
  if (wanted.sha256 === kept?.newest?.sha256) return versionRecord(key, wanted);
  return await adopt(key, { ...key, sha256: wanted.sha256 }, { ...services, replaces: kept?.revision ?? "" });
}

/**
 * Copies a version of a key's files to another tenant or workload, where it becomes the newest.
 *
 * @param to.sandbox what the copy says of its sandbox. @default it says nothing of one of the receiver
 * @throws HttpError 404 for a missing version; 409 if the receiver has a claim, or a snapshot that the call does not
 *   name, or if another writer was first
 */
export async function copySnapshot(
  from: SnapshotKey,
  { tenantId, workload, version, replaces, sandbox }: v.InferOutput<typeof copyBody> & { sandbox?: string | undefined },
  services: Acting,
): Promise<VersionRecord> {
  const { namespace, clientGone, recorder, log } = services;
  const to = { tenantId, workloadRef: workload ?? from.workloadRef };
  if (to.tenantId === from.tenantId && to.workloadRef === from.workloadRef) {
    throw new HttpError(
      409,
      "a copy is for another tenant or workload; POST …/rollback makes an older version the newest",
    );
  }
  const target = await readWorkload(to.workloadRef, services);
  await refuseWhileClaimed(to, services);
  const source = findVersion(from, await lookAtSnapshots(from, services, clientGone), version);
  const present = await lookAtSnapshots(to, services, clientGone);
  refusePresent(to, present, replaces);
  refuseOtherThan(replaces, to, present);
  const copied = await adopt(
    to,
    { ...from, sha256: source.sha256 },
    { ...services, replaces: present?.revision ?? "", sandbox },
  );
  const whose = `the files of tenant "${from.tenantId}" of workload "${from.workloadRef}" (version ${archiveDigits(source.sha256)})`;
  const message = `${whose} were copied to tenant "${to.tenantId}" for workload "${to.workloadRef}"`;
  recorder.record({ resource: workloads, object: target, type: "Normal", reason: "SnapshotCopied", message });
  log.info({ namespace, from, to, sha256: source.sha256 }, "snapshot copied");
  return copied;
}

/** @throws HttpError 404 that lists the existing versions */
export function findVersion(
  key: SnapshotKey,
  kept: KeptSnapshots | undefined,
  version: string | undefined,
): SnapshotMetadata {
  const all = versionsIn(kept);
  const found = version === undefined ? kept?.newest : all.find((one) => isVersion(one, version));
  if (found !== undefined) return found;
  if (version === undefined || all.length === 0) throw noSnapshot(key);
  const there = all.map(({ sha256, names = [] }) => [archiveDigits(sha256), ...names].join(" = ")).join(", ");
  throw new HttpError(404, `there is no version ${version} of it: there are ${there}`);
}

function isVersion({ sha256, names = [] }: SnapshotMetadata, version: string): boolean {
  return archiveVersion.test(version) ? sha256.startsWith(version) : names.includes(version);
}

/**
 * The digits of the version that a caller names.
 *
 * @throws HttpError 409 if no version has the name
 */
export async function versionOf(
  key: SnapshotKey,
  version: string,
  { clientGone, ...services }: SnapshotServices & { clientGone: AbortSignal },
): Promise<string> {
  if (archiveVersion.test(version)) return version;
  const kept = await lookAtSnapshots(key, services, clientGone);
  const found = versionsIn(kept).find((one) => isVersion(one, version));
  if (found !== undefined) return found.sha256;
  const { tenantId, workloadRef } = key;
  throw new HttpError(
    409,
    `tenant ${quote(tenantId)} has no saved version ${quote(version)} of workload ${quote(workloadRef)}`,
  );
}

/**
 * The version that another one replaced. Passes over checkpoints, which were never the newest. The one before a
 * checkpoint is the one that its session saved before, or what that session began with, or else the newest.
 *
 * @throws HttpError 404 if it is the oldest
 */
export function versionBefore(kept: KeptSnapshots | undefined, after: SnapshotMetadata): SnapshotMetadata {
  const all = versionsIn(kept);
  const older = all.slice(all.indexOf(after) + 1);
  const found =
    after.kind === "checkpoint"
      ? (older.find(({ session }) => session !== undefined && session === after.session) ??
        all.find(({ sha256 }) => sha256 === after.continues) ??
        kept?.newest)
      : older.find(({ kind }) => kind !== "checkpoint");
  if (found !== undefined) return found;
  throw new HttpError(404, `there is no version before ${archiveDigits(after.sha256)}`);
}

/** The newest first. */
function versionsIn(kept: KeptSnapshots | undefined): readonly SnapshotMetadata[] {
  return kept === undefined ? [] : allArchives(kept);
}

/** @throws HttpError 409 if another version than the expected one is the newest */
export function refuseOtherThan(expected: string | undefined, key: SnapshotKey, kept: KeptSnapshots | undefined): void {
  if (expected !== undefined && kept?.newest?.sha256.startsWith(expected) !== true) throw changed(key, expected);
}

/** @throws HttpError 409 if a snapshot exists that the caller did not name */
export function refusePresent(
  { tenantId, workloadRef }: SnapshotKey,
  kept: KeptSnapshots | undefined,
  replaces: string | undefined,
): void {
  if (kept?.state !== "unrecorded" && (kept?.newest === undefined || replaces !== undefined)) return;
  const whose = `tenant ${quote(tenantId)} has a snapshot of workload ${quote(workloadRef)}`;
  throw new HttpError(409, `${whose}: name it in replaces, or delete it first`);
}

export function changed({ tenantId, workloadRef }: SnapshotKey, expected: string | undefined): HttpError {
  const which = expected === undefined ? "another one now" : `no longer ${archiveDigits(expected)}`;
  const whose = `the newest saved version of workload ${quote(workloadRef)} of tenant ${quote(tenantId)}`;
  return new HttpError(409, `${whose} is ${which}: list the versions again`);
}

/** @throws HttpError 409 if another writer was first */
async function adopt(
  key: SnapshotKey,
  from: SnapshotKey & { readonly sha256: string },
  { replaces, sandbox, ...services }: Acting & { replaces: string; sandbox?: string | undefined },
): Promise<VersionRecord> {
  const { clock } = services;
  const most = mostKeptOf(key, services);
  const createdAt = new Date(clock.now()).toISOString();
  try {
    const committed = await askStore(
      ({ archives }, call) =>
        archives.adopt(key, from, { ...call, replaces, keep: "replaced", most, createdAt, sandbox }),
      services,
    );
    if (committed === undefined) throw changed(from, undefined);
    return versionRecord(key, committed.metadata);
  } catch (error) {
    throw error instanceof StoreConflict ? changed(key, undefined) : error;
  }
}
