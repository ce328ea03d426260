import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { deleteSnapshot, readVersions } from "../claims/acts.tsx";
import { claim, isOpen } from "../claims/claim.ts";
import type { PageParams } from "../pages.ts";
import { Act, type Acts, Outcome, useActs } from "../parts/acts.tsx";
import { Problem } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { When } from "../parts/when.tsx";

type Snapshot = ApiTypes["Snapshot"];

/** All versions of what was saved of a tenant in a workload. */
export default function One({ params }: { params: PageParams }) {
  const { tenant: tenantId = "", workload: workloadRef = "" } = params;
  const key = { tenantId, workloadRef };
  const claims = live("claims");
  claims.version.value;
  // A release that has ended saved a version.
  const row = claims.rows.get(`${tenantId}/${workloadRef}`);
  const read = useLoad(`versions ${tenantId} ${workloadRef}`, (signal) => readVersions(key, { signal }), row?.phase);
  const acts = useActs();
  const versions = read.value ?? [];
  return (
    <>
      <p class="crumbs">
        <a href="/dashboard/snapshots">Snapshots</a> /{" "}
        <a href={`/dashboard/snapshots?tenant=${encodeURIComponent(tenantId)}`}>{tenantId}</a>
      </p>
      <h1>
        {workloadRef} <small>saved of {tenantId}</small>
      </h1>
      <div class="acts">
        <button type="button" onClick={read.again}>
          Read again
        </button>
        {versions.length > 0 && <Act acts={acts} verb="Delete" class="danger" act={erase} />}
      </div>
      <Outcome acts={acts} />
      <Problem error={read.error} />
      {read.value === undefined && read.error === undefined && <p class="muted">Reading the volume …</p>}
      {read.value !== undefined && versions.length === 0 && <p>Nothing is saved.</p>}
      {versions.length > 0 && <Versions of={versions} isOpen={isOpen(row)} acts={acts} />}
      {row !== undefined && (
        <p>
          <a href={`/dashboard/claims/${encodeURIComponent(tenantId)}/${encodeURIComponent(workloadRef)}`}>The claim</a>{" "}
          {isOpen(row)
            ? "has failed: it can be made anew with any version."
            : "keeps the files that it has; its release saves them as a new version."}
        </p>
      )}
    </>
  );

  async function erase(): Promise<string | undefined> {
    const said = await deleteSnapshot(key);
    if (said !== undefined) read.again();
    return said;
  }
}

function Versions({ of, isOpen, acts }: { of: readonly Snapshot[]; isOpen: boolean; acts: Acts }) {
  return (
    <table aria-label="Versions">
      <thead>
        <tr>
          <th scope="col">Saved</th>
          <th scope="col" class="number">
            Size
          </th>
          <th scope="col">SHA-256</th>
          <th scope="col">Act</th>
        </tr>
      </thead>
      <tbody>
        {of.map(({ path, createdAt, sizeBytes, sha256, tenantId, workloadRef }, at) => (
          <tr key={path}>
            <td>
              <When at={createdAt} />
              {at === 0 && ", the newest"}
            </td>
            <td class="number">{sizeWords(sizeBytes)}</td>
            <td>{sha256 === undefined ? "lost, so that it cannot be restored" : <code>{sha256.slice(0, 16)}</code>}</td>
            <td>
              {sha256 !== undefined && isOpen && (
                <Act
                  acts={acts}
                  verb={`Claim with ${sha256.slice(0, 8)}`}
                  act={() => claim({ tenantId, workloadRef }, { version: sha256 })}
                />
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
