import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import { sendFile } from "../api/send-file.ts";
import type { ClaimKey } from "../claims/claim.ts";
import { confirm } from "../parts/confirm.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { When } from "../parts/when.tsx";

/** A saved version; older ones have a `version`. */
export type Version = ApiTypes["Snapshot"];

/** A version that can be restored. */
export type KnownVersion = Version & { readonly sha256: string };

export const isKnown = (version: Version): version is KnownVersion => version.sha256 !== undefined;

/** The digits of its digest that people and the API use as the version's name. */
export const digitsOf = ({ sha256 }: KnownVersion): string => sha256.slice(0, 16);

/** Path below `/api/v1`. */
export function snapshotPath({ tenantId, workloadRef }: ClaimKey): string {
  return `/tenants/${encodeURIComponent(tenantId)}/snapshots/${encodeURIComponent(workloadRef)}`;
}

/** All saved versions, newest first. */
export async function readVersions(
  { tenantId, workloadRef }: ClaimKey,
  options: { signal?: AbortSignal } = {},
): Promise<Version[]> {
  const path = `/snapshots?versions=true&limit=1000&tenant=${encodeURIComponent(tenantId)}`;
  return (await call<Version[]>("GET", path, options)).filter((one) => one.workloadRef === workloadRef);
}

/** The version that a claim with files restores; undefined if nothing is saved. */
async function readNewest(key: ClaimKey): Promise<Version | undefined> {
  return (await readVersions(key)).find(({ version }) => version === undefined);
}

/** Asks for confirmation first: deletes all versions, except those saved after the question opened. */
export async function deleteSnapshot(key: ClaimKey): Promise<string | undefined> {
  const { tenantId, workloadRef } = key;
  const versions = await readVersions(key);
  if (versions.length === 0) return `No saved version of ${tenantId} in ${workloadRef} is left.`;
  const isMeant = await confirm({
    title: `Delete all saved versions of ${tenantId} in ${workloadRef}?`,
    lost: (
      <>
        <p>
          {versions.length === 1 ? "The only version" : `All ${versions.length} versions`} of the files{" "}
          {versions.length === 1 ? "is" : "are"} deleted and cannot be restored:
        </p>
        <ul>
          {versions.map(({ path, sizeBytes, createdAt }) => (
            <li key={path}>
              {sizeWords(sizeBytes)}, <When at={createdAt} />
            </li>
          ))}
        </ul>
        <p>
          A running claim keeps its files. Its release saves them again, unless it is released as idle and its workload
          does not save idle sessions.
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
  return `The saved versions of ${tenantId} in ${workloadRef} are deleted.`;
}

/** Asks for confirmation first: the next session starts with other files than the last one had. */
export async function rollBack(to: KnownVersion): Promise<string | undefined> {
  const { tenantId, workloadRef, sha256, sizeBytes, createdAt } = to;
  const newest = await readNewest(to);
  const isMeant = await confirm({
    title: `Roll ${workloadRef} of ${tenantId} back to ${digitsOf(to)}?`,
    lost: (
      <>
        <p>
          The next claim with files restores those from <When at={createdAt} />, {sizeWords(sizeBytes)}.
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

/** Asks for confirmation first: without a name the version may be deleted by a later save. */
export async function removeName(of: ClaimKey, name: string): Promise<string | undefined> {
  const isMeant = await confirm({
    title: `Remove the name ${name}?`,
    lost: <p>The version stays only for as long as versions without a name do. A later save may then delete it.</p>,
    verb: "Remove the name",
  });
  if (!isMeant) return undefined;
  await call("DELETE", `${snapshotPath(of)}/names/${encodeURIComponent(name)}`);
  return `The version no longer has the name ${name}.`;
}

/** Asks for confirmation first: one tenant can then read the files of another. */
export async function copyTo(tenantId: string, version: KnownVersion): Promise<string | undefined> {
  const { tenantId: owner, workloadRef, sha256, sizeBytes, createdAt } = version;
  const present = await readNewest({ tenantId, workloadRef });
  const isMeant = await confirm({
    title: `Give ${tenantId} the files of ${owner} in ${workloadRef}?`,
    lost: (
      <>
        <p>
          <b>
            This gives one tenant's files to another: {tenantId} can read and keep everything that {owner} has saved
          </b>{" "}
          in version <code>{digitsOf(version)}</code>, from <When at={createdAt} />, {sizeWords(sizeBytes)}. This cannot
          be undone. An Event names both tenants.
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
  return `${tenantId} now has the files of ${owner} in ${workloadRef}, version ${digitsOf(version)}.`;
}

/** Asks for confirmation first: the next session starts with other files than the last one had. */
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
          The next claim with files restores those of {file.name}, {sizeWords(file.size)}.
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
  const { version, sizeBytes } = await sendFile<ApiTypes["SnapshotVersion"]>("PUT", path, {
    ...{ file, onSent, signal },
    type: "application/gzip",
  });
  return `The archive is now the newest version of ${tenantId} in ${workloadRef}: ${version}, ${sizeWords(sizeBytes)}.`;
}

/** What happens to the newest version when another replaces it. */
function WhatStays({ of, whose }: { of: Version | undefined; whose: string }) {
  if (of === undefined) return <p>It replaces no saved version of {whose}.</p>;
  return (
    <p>
      The newest version of {whose}, from <When at={of.createdAt} />, {sizeWords(of.sizeBytes)}, stays as an older
      version. The three newest replaced versions are kept.
    </p>
  );
}
