import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct } from "../api/access.ts";
import { type Kinds, live } from "../api/kinds.ts";
import type { Loaded } from "../api/load.ts";
import { claim } from "../claims/claim.ts";
import { Act, type Acts } from "../parts/acts.tsx";
import { savedHref } from "../parts/hrefs.ts";
import { Reading, Unread } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { When } from "../parts/when.tsx";
import { digitsOf, isKnown, type KnownVersion, rollBack } from "../snapshots/acts.tsx";
import { Kept } from "../snapshots/kept.tsx";

type Snapshot = ApiTypes["Snapshot"];

/** The first saved files of a tenant, each with its older versions after it. */
export interface SavedFiles {
  readonly list: readonly Snapshot[];
  readonly hasMore: boolean;
}

/** All saved versions of a tenant, and the acts that bring one back. */
export function Saved({ of: tenantId, saved, acts }: { of: string; saved: Loaded<SavedFiles>; acts: Acts }) {
  const { value, error } = saved;
  const claims = live("claims");
  claims.version.value;
  const isLoading = claims.state.value === "loading";
  const newest = new Map(
    value?.list.filter(({ version }) => version === undefined).map((one) => [one.workloadRef, one]),
  );
  return (
    <section aria-labelledby="saved">
      <h2 id="saved">Saved files</h2>
      <Unread error={error} />
      <Reading of={saved} />
      {value?.list.length === 0 && <p class="muted">It has no saved files.</p>}
      {value !== undefined && value.list.length > 0 && (
        <table class="stack versions" aria-labelledby="saved">
          <thead>
            <tr>
              <th scope="col">Workload</th>
              <th scope="col">Saved</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Kept because</th>
              <th scope="col">Action</th>
            </tr>
          </thead>
          <tbody>
            {value.list.map((version) => (
              <Row
                key={version.path}
                of={version}
                isNewest={version.sha256 === newest.get(version.workloadRef)?.sha256}
                phase={isLoading ? "Pending" : claims.rows.get(`${tenantId}/${version.workloadRef}`)?.phase}
                acts={acts}
                again={saved.again}
              />
            ))}
          </tbody>
        </table>
      )}
      {value?.hasMore && <a href={`/dashboard/snapshots?tenant=${encodeURIComponent(tenantId)}`}>All saved files</a>}
    </section>
  );
}

interface VersionProps {
  readonly of: Snapshot;
  /** Whether its digest is that of the newest version. */
  readonly isNewest: boolean;
  /** Of the claim on its workload; undefined without one. */
  readonly phase: Kinds["claims"]["phase"] | undefined;
  readonly acts: Acts;
  again(): void;
}

function Row(props: VersionProps) {
  const { of } = props;
  const { tenantId, workloadRef, createdAt, sizeBytes } = of;
  const path = savedHref({ tenantId, workloadRef });
  return (
    <tr>
      <th scope="row">
        <a href={path}>{workloadRef}</a>
      </th>
      <td>
        <When at={createdAt} />
      </td>
      <td class="number" data-label="size">
        {sizeWords(sizeBytes)}
      </td>
      <td>
        <Kept of={of} />
      </td>
      <td>
        {!isKnown(of) && "metadata lost: cannot be restored"}
        {isKnown(of) && mayAct() && (
          <div class="acts">
            <BringBack {...props} of={of} />
            <a
              class="button"
              aria-label={`Files of ${workloadRef} ${digitsOf(of)}`}
              href={`${path}?files=${digitsOf(of)}`}
            >
              Files
            </a>
          </div>
        )}
      </td>
    </tr>
  );
}

/** The act by which the next session has these files. A release would replace them, so there must be no claim. */
function BringBack({ of, isNewest, phase, acts, again }: VersionProps & { of: KnownVersion }) {
  const short = digitsOf(of).slice(0, 8);
  if (phase === "Error")
    return <Act acts={acts} verb={`Claim with ${short}`} act={() => claim(of, { version: of.sha256 })} />;
  if (isNewest) return null;
  if (phase !== undefined && phase !== "Released")
    return <span class="muted">Release {of.workloadRef} to roll back.</span>;
  return <Act acts={acts} verb={`Roll back to ${short}`} act={rollBackNow} />;

  async function rollBackNow(): Promise<string | undefined> {
    const said = await rollBack(of);
    if (said !== undefined) again();
    return said;
  }
}
