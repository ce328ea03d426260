import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct, seesService } from "../api/access.ts";
import { CallError, send } from "../api/call.ts";
import { clockAheadMs, type Kinds, live } from "../api/kinds.ts";
import { type Loaded, useLoad } from "../api/load.ts";
import { knownOf } from "../claims/known-of.ts";
import { Problem } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { State } from "../parts/state.tsx";
import { When } from "../parts/when.tsx";
import type { PageParams } from "../route.ts";
import { Bars, Totals } from "../usage/bars.tsx";
import { readUsage, type UsagePage } from "../usage/read-usage.ts";
import { type Days, dayAt, daysOf, eachDay, total } from "../usage/view.ts";
import { TenantLimits } from "./limits.tsx";

type Snapshot = ApiTypes["Snapshot"];

const MOST_CLAIMS = 50;
const MOST_SNAPSHOTS = 50;

/** A tenant: its claims, limits, usage and saved files. */
export default function Tenant({ params }: { params: PageParams }) {
  const { id = "" } = params;
  const claims = live("claims");
  claims.version.value;
  const rows = [...claims.rows.values()].filter(({ tenantId }) => tenantId === id).sort(byWorkload);
  // A change of a phase changes what is used, and a release saves files.
  const version = rows.map(({ workloadRef, phase }) => `${workloadRef} ${phase}`).join();
  const days = daysOf({ range: "30d", first: "", last: "" }, dayAt(Date.now() + clockAheadMs.peek())) as Days;
  const query = new URLSearchParams({ ...days, by: "day", tenant: id });
  const usage = useLoad(String(query), (signal) => readUsage(query, signal));
  const saved = useLoad(`snapshots ${id}`, (signal) => readSnapshots(id, signal), version);
  const isRead = claims.state.value !== "loading" && saved.value !== undefined && (usage.value ?? usage.error);
  const isUnknown = isRead && rows.length + (saved.value?.list.length ?? 0) + (usage.value?.sums.length ?? 0) === 0;
  const tenant = encodeURIComponent(id);
  const heading = (
    <h1>
      {id} <small>tenant</small>
    </h1>
  );
  // No tenant can have this id, or the caller reaches none of that id: all else is refused for the same reason.
  if (saved.error instanceof CallError && (saved.error.status === 400 || saved.error.status === 404)) {
    return (
      <>
        {heading}
        <Problem error={saved.error} />
      </>
    );
  }
  return (
    <>
      {heading}
      <div class="acts">
        {mayAct() && (
          <a class="button" href={`/dashboard/create/claim?tenant=${tenant}`}>
            Claim a workload
          </a>
        )}
        <a class="button" href={`/dashboard/usage?tenant=${tenant}&by=workload`}>
          Usage
        </a>
        <a class="button" href={`/dashboard/instances?tenant=${tenant}`}>
          Instances
        </a>
      </div>
      {isUnknown && seesService() && (
        <p>
          Nothing is known of a tenant with this id: it has no claims and no saved files, and used nothing in the last
          30 days. A tenant needs no other step than its first claim.
        </p>
      )}
      <section aria-labelledby="claims">
        <h2 id="claims">Claims</h2>
        {rows.length === 0 && (
          <p class="muted">{claims.state.value === "loading" ? "Loading…" : "It has no claims."}</p>
        )}
        {rows.length > 0 && <Claims of={rows.slice(0, MOST_CLAIMS)} />}
        {rows.length > MOST_CLAIMS && (
          <p>
            <a href={`/dashboard/claims?tenant=${tenant}`}>All {rows.length.toLocaleString()} claims</a>
          </p>
        )}
      </section>
      <TenantLimits of={id} version={version} />
      <UsedLately days={days} usage={usage} />
      <Saved of={id} saved={saved} />
    </>
  );
}

function byWorkload(a: Kinds["claims"], b: Kinds["claims"]): number {
  return a.workloadRef < b.workloadRef ? -1 : 1;
}

function Claims({ of }: { of: readonly Kinds["claims"][] }) {
  return (
    <table class="stack" aria-labelledby="claims">
      <thead>
        <tr>
          <th scope="col">Workload</th>
          <th scope="col">State</th>
          <th scope="col">Reason</th>
          <th scope="col">Claimed</th>
          <th scope="col">Pod</th>
        </tr>
      </thead>
      <tbody>
        {of.map((claim) => (
          <tr key={claim.workloadRef}>
            <th scope="row">
              <a href={`/dashboard/claims/${encodeURIComponent(claim.tenantId)}/${claim.workloadRef}`}>
                {claim.workloadRef}
              </a>
            </th>
            <td>
              <State of={knownOf(claim)} />
            </td>
            <td>{claim.reason}</td>
            <td>
              <When at={claim.claimedAt} />
            </td>
            <td>
              {claim.instanceId !== undefined && (
                <a href={`/dashboard/instances/${claim.instanceId}`}>{claim.instanceId}</a>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function UsedLately({ days, usage: { value, error } }: { days: Days; usage: Loaded<UsagePage> }) {
  // Without a store nothing is recorded, which is no error of this page.
  const isOff = error instanceof CallError && error.status === 404;
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">Usage of the last 30 days</h2>
      {isOff ? <p class="muted">{error.message}</p> : <Problem error={error} />}
      {error === undefined && (
        <>
          <Totals of={value && total(value.sums)} />
          <Bars days={eachDay(days, value?.sums ?? [])} measure="vcpu" />
        </>
      )}
    </section>
  );
}

interface SavedFiles {
  readonly list: readonly Snapshot[];
  readonly hasMore: boolean;
}

async function readSnapshots(tenantId: string, signal: AbortSignal): Promise<SavedFiles> {
  const query = new URLSearchParams({ tenant: tenantId, limit: String(MOST_SNAPSHOTS) });
  const response = await send("GET", `/snapshots?${query}`, { signal });
  return { list: (await response.json()) as Snapshot[], hasMore: response.headers.has("x-tenancy-next") };
}

function Saved({ of, saved: { value, error } }: { of: string; saved: Loaded<SavedFiles> }) {
  const tenant = encodeURIComponent(of);
  return (
    <section aria-labelledby="saved">
      <h2 id="saved">Saved files</h2>
      <Problem error={error} />
      {value === undefined && error === undefined && <p class="muted">Reading…</p>}
      {value?.list.length === 0 && <p class="muted">It has no saved files.</p>}
      {value !== undefined && value.list.length > 0 && (
        <table class="stack" aria-labelledby="saved">
          <thead>
            <tr>
              <th scope="col">Workload</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Saved</th>
            </tr>
          </thead>
          <tbody>
            {value.list.map(({ workloadRef, sizeBytes, createdAt }) => (
              <tr key={workloadRef}>
                <th scope="row">
                  <a href={`/dashboard/snapshots/${tenant}/${workloadRef}`}>{workloadRef}</a>
                </th>
                <td class="number">{sizeWords(sizeBytes)}</td>
                <td>
                  <When at={createdAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {value?.hasMore && <a href={`/dashboard/snapshots?tenant=${tenant}`}>All saved files</a>}
    </section>
  );
}
