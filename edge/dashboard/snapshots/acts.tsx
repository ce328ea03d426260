import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import { sendFile } from "../api/send-file.ts";
import type { ClaimKey } from "../claims/claim.ts";
import { confirm } from "../parts/confirm.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { When } from "../parts/when.tsx";

/** A version of what was saved; older ones have a `version`. */
export type Version = ApiTypes["Snapshot"];

/** One that can be restored. */
export type KnownVersion = Version & { readonly sha256: string };

/** The digits that name a version to people and to the API. */
export const digitsOf = ({ sha256 }: KnownVersion): string => sha256.slice(0, 16);

/** Below `/api/v1`. */
export function snapshotPath({ tenantId, workloadRef }: ClaimKey): string {
  return `/tenants/${encodeURIComponent(tenantId)}/snapshots/${encodeURIComponent(workloadRef)}`;
}

/** All that is saved now, the newest first. */
export async function readVersions(
  { tenantId, workloadRef }: ClaimKey,
  options: { signal?: AbortSignal } = {},
): Promise<Version[]> {
  const path = `/snapshots?versions=true&limit=1000&tenant=${encodeURIComponent(tenantId)}`;
  return (await call<Version[]>("GET", path, options)).filter((one) => one.workloadRef === workloadRef);
}

/** What a claim with files is given; undefined where nothing is saved. */
async function readNewest(key: ClaimKey): Promise<Version | undefined> {
  return (await readVersions(key)).find(({ version }) => version === undefined);
}

/** Asks first: all versions go, and none that was saved since the question was opened. */
export async function deleteSnapshot(key: ClaimKey): Promise<string | undefined> {
  const { tenantId, workloadRef } = key;
  const versions = await readVersions(key);
  if (versions.length === 0) return `Nothing is saved of ${tenantId} in ${workloadRef} any more.`;
  const isMeant = await confirm({
    title: `Delete what was saved of ${tenantId} in ${workloadRef}?`,
    lost: (
      <>
        <p>
          {versions.length === 1 ? "The one version" : `All ${versions.length} versions`} of the files{" "}
          {versions.length === 1 ? "is" : "are"} erased and cannot be brought back:
        </p>
        <ul>
          {versions.map(({ path, sizeBytes, createdAt }) => (
            <li key={path}>
              {sizeWords(sizeBytes)}, <When at={createdAt} />
            </li>
          ))}
        </ul>
        <p>
          A running claim keeps its files. Its release saves them anew, unless it is released for idleness and its
          workload saves nothing then.
        </p>
      </>
    ),
    verb: "Delete",
    type: tenantId,
  });
  if (!isMeant) return undefined;
  const newest = versions.find(({ version }) => version === undefined)?.sha256;
  const query = newest === undefined ? "" : `?newest=${newest}`;
  await call("DELETE", `${snapshotPath(key)}${query}`);
  return `What was saved of ${tenantId} in ${workloadRef} is deleted.`;
}

/** Asks first: the next session begins with other files than those of the last one. */
export async function rollBack(to: KnownVersion): Promise<string | undefined> {
  const { tenantId, workloadRef, sha256, sizeBytes, createdAt } = to;
  const newest = await readNewest(to);
  const isMeant = await confirm({
    title: `Roll ${workloadRef} of ${tenantId} back to ${digitsOf(to)}?`,
    lost: (
      <>
        <p>
          The next claim with files has those of <When at={createdAt} />, {sizeWords(sizeBytes)}.
        </p>
        <WhatStays of={newest} whose={tenantId} />
      </>
    ),
    verb: "Roll back",
  });
  if (!isMeant) return undefined;
  const body = { version: sha256, ...(newest?.sha256 !== undefined && { newest: newest.sha256 }) };
  await call("POST", `${snapshotPath(to)}/rollback`, { body });
  return `${workloadRef} of ${tenantId} is rolled back to ${digitsOf(to)}.`;
}

/** Asks first: one tenant can read the files of another from then on. */
export async function copyTo(tenantId: string, version: KnownVersion): Promise<string | undefined> {
  const { tenantId: owner, workloadRef, sha256, sizeBytes, createdAt } = version;
  const present = await readNewest({ tenantId, workloadRef });
  const isMeant = await confirm({
    title: `Give ${tenantId} the files of ${owner} in ${workloadRef}?`,
    lost: (
      <>
        <p>
          <b>
            This gives one tenant's files to another: {tenantId} can read and keep all that {owner} has saved
          </b>{" "}
          in version <code>{digitsOf(version)}</code>, of <When at={createdAt} />, {sizeWords(sizeBytes)}. It cannot be
          taken back. An Event names both.
        </p>
        <WhatStays of={present} whose={tenantId} />
      </>
    ),
    verb: "Copy",
    type: owner,
  });
  if (!isMeant) return undefined;
  const replaces = present?.sha256;
  const body = { tenantId, version: sha256, ...(replaces !== undefined && { replaces }) };
  await call("POST", `${snapshotPath(version)}/copy`, { body });
  return `${tenantId} has the files of ${owner} in ${workloadRef}, version ${digitsOf(version)}.`;
}

/** Asks first: the next session begins with other files than those of the last one. */
export async function upload(
  key: ClaimKey,
  sent: { file: File; onStart: () => void; onSent: (bytes: number) => void; signal: AbortSignal },
): Promise<string | undefined> {
  const { tenantId, workloadRef } = key;
  const { file, onStart, onSent, signal } = sent;
  const present = await readNewest(key);
  const isMeant = await confirm({
    title: `Upload an archive for ${tenantId} in ${workloadRef}?`,
    lost: (
      <>
        <p>
          The next claim with files has those of {file.name}, {sizeWords(file.size)}.
        </p>
        <WhatStays of={present} whose={tenantId} />
      </>
    ),
    verb: "Upload",
  });
  if (!isMeant) return undefined;
  onStart();
  const query = present?.sha256 === undefined ? "" : `?replaces=${present.sha256}`;
  const path = `${snapshotPath(key)}/archive${query}`;
  const { version, sizeBytes } = await sendFile<ApiTypes["SnapshotVersion"]>("PUT", path, { file, onSent, signal });
  return `The archive is what was saved last of ${tenantId} in ${workloadRef}: version ${version}, ${sizeWords(sizeBytes)}.`;
}

/** What becomes of the newest version when another takes its place. */
function WhatStays({ of, whose }: { of: Version | undefined; whose: string }) {
  if (of === undefined) return <p>Nothing is saved of {whose} that it would replace.</p>;
  return (
    <p>
      What {whose} has now, of <When at={of.createdAt} />, {sizeWords(of.sizeBytes)}, stays as an older version. Of
      those that were replaced, the newest three stay.
    </p>
  );
}
