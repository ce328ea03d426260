import { mayAct, mayChange } from "../api/access.ts";
import { live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { claim, isOpen } from "../claims/claim.ts";
import { ClaimTabs } from "../claims/tabs.tsx";
import { Act, type Acts, Outcome, useActs } from "../parts/acts.tsx";
import { useFocusOn } from "../parts/focus.ts";
import { claimHref } from "../parts/hrefs.ts";
import { Problem } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { TenantLink } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import { type PageParams, place } from "../route.ts";
import {
  deleteSnapshot,
  digitsOf,
  isKnown,
  type KnownVersion,
  readVersions,
  removeName,
  rollBack,
  snapshotPath,
  type Version,
} from "./acts.tsx";
import { Checkpoint } from "./checkpoint.tsx";
import { compareHref } from "./compare.tsx";
import { Copy } from "./copy.tsx";
import { filesHref } from "./files.tsx";
import { Kept } from "./kept.tsx";
import { Upload } from "./upload.tsx";
import { OneVersion } from "./version.tsx";

/** All saved versions of a tenant in a workload, or one of them as the page's address says. */
export default function One({ params }: { params: PageParams }) {
  const { tenant: tenantId = "", workload: workloadRef = "" } = params;
  const key = { tenantId, workloadRef };
  const claims = live("claims");
  claims.version.value;
  // A finished release saved a version.
  const row = claims.rows.get(`${tenantId}/${workloadRef}`);
  const read = useLoad(`versions ${tenantId} ${workloadRef}`, (signal) => readVersions(key, { signal }), row?.phase);
  const acts = useActs();
  const versions = read.value ?? [];
  // After a rollback the same version is both the newest and an older one.
  const known = versions
    .filter(isKnown)
    .filter(({ sha256 }, at, all) => all.findIndex((one) => one.sha256 === sha256) === at);
  // While there is a claim, its release would replace the new newest version: the API refuses that.
  const isFree = claims.state.value !== "loading" && (row === undefined || row.phase === "Released");
  const newest = versions.find(({ version }) => version === undefined);
  const { searchParams } = place.value;
  const files = searchParams.get("files");
  const compared = searchParams.get("compare");
  const shown = files ?? compared;
  const heading = useFocusOn<HTMLHeadingElement>(`${files} ${compared}`);
  if (shown !== null) {
    const given = { of: key, digits: shown, isCompared: files === null, versions: known, error: read.error };
    return <OneVersion {...given} heading={heading} />;
  }
  return (
    <>
      <p class="crumbs">
        <a href="/dashboard/snapshots">Snapshots</a> / <TenantLink of={tenantId} />
      </p>
      <h1 ref={heading} tabIndex={-1}>
        {workloadRef}{" "}
        <small>
          saved versions of <TenantLink of={tenantId} />
        </small>
      </h1>
      <ClaimTabs of={key} row={row} current="saved" />
      <div class="acts">
        <button type="button" onClick={read.again}>
          Reload
        </button>
        {versions.length > 0 && mayAct() && (
          <Act acts={acts} verb="Delete" class="danger" act={() => changed(deleteSnapshot(key))} />
        )}
      </div>
      <Outcome acts={acts} />
      <Problem error={read.error} />
      {read.value === undefined && read.error === undefined && <p class="muted">Reading versions …</p>}
      {read.value !== undefined && versions.length === 0 && <p>No saved versions.</p>}
      {versions.length > 0 && (
        <table aria-label="Versions" class="stack versions">
          <thead>
            <tr>
              <th scope="col">Saved</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Version</th>
              <th scope="col">Kept because</th>
              <th scope="col">Action</th>
            </tr>
          </thead>
          <tbody>
            {versions.map((version) => (
              <Row
                key={version.path}
                of={version}
                isNewest={version.sha256 === newest?.sha256}
                isOpen={isOpen(row)}
                isFree={isFree}
                acts={acts}
                changed={changed}
              />
            ))}
          </tbody>
        </table>
      )}
      {row !== undefined && (
        <p>
          <a href={claimHref(key)}>The claim</a>{" "}
          {isOpen(row)
            ? "has failed: claim again with any version."
            : "keeps its current files; its release saves them as a new version."}
          {!isFree && " Release it before you roll back or upload."}
        </p>
      )}
      {row?.phase === "Active" && mayAct() && <Checkpoint of={key} {...{ acts, changed }} />}
      {known.length > 0 && mayChange() && <Copy of={known} />}
      {read.value !== undefined && isFree && mayAct() && <Upload of={key} onEnd={read.again} />}
    </>
  );

  /** Reads again after an act. */
  async function changed(act: Promise<string | undefined>): Promise<string | undefined> {
    const said = await act;
    if (said !== undefined) read.again();
    return said;
  }
}

function Row(props: {
  of: Version;
  /** Whether its digest is that of the newest version. */
  isNewest: boolean;
  isOpen: boolean;
  /** Whether another version can become the newest. */
  isFree: boolean;
  acts: Acts;
  changed(act: Promise<string | undefined>): Promise<string | undefined>;
}) {
  const { of, isNewest, isOpen, isFree, acts, changed } = props;
  const { createdAt, sizeBytes } = of;
  return (
    <tr>
      <td>
        <When at={createdAt} />
      </td>
      <td class="number" data-label="size">
        {sizeWords(sizeBytes)}
      </td>
      <td>{isKnown(of) ? <code title={of.sha256}>{digitsOf(of)}</code> : "metadata lost: cannot be restored"}</td>
      <td>
        <Kept of={of} />
      </td>
      <td>
        {isKnown(of) && mayAct() && (
          <div class="acts">
            {isOpen && (
              <Act acts={acts} verb={`Claim with ${short(of)}`} act={() => claim(of, { version: of.sha256 })} />
            )}
            {!isNewest && isFree && (
              <Act acts={acts} verb={`Roll back to ${short(of)}`} act={() => changed(rollBack(of))} />
            )}
            <a class="button" download href={`/api/v1${snapshotPath(of)}/archive?version=${of.sha256}`}>
              Download {short(of)}
            </a>
            <a class="button" aria-label={`Files of ${short(of)}`} href={filesHref(digitsOf(of))}>
              Files
            </a>
            <a class="button" aria-label={`Compare ${short(of)}`} href={compareHref(digitsOf(of))}>
              Compare
            </a>
            {of.names?.map((name) => (
              <Act key={name} acts={acts} verb={`Remove the name ${name}`} act={() => changed(removeName(of, name))} />
            ))}
          </div>
        )}
      </td>
    </tr>
  );
}

const short = ({ sha256 }: KnownVersion): string => sha256.slice(0, 8);
