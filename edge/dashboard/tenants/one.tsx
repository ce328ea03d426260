import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct, seesService } from "../api/access.ts";
import { CallError, ifGone, send } from "../api/call.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { readClaim } from "../claims/claim.ts";
import { Outcome, useActs } from "../parts/acts.tsx";
import { Events } from "../parts/events.tsx";
import { Problem, Unread } from "../parts/problem.tsx";
import type { PageParams } from "../route.ts";
import { readUsage } from "../usage/read-usage.ts";
import { Claims } from "./claims.tsx";
import { TenantLimits, useLimits } from "./limits.tsx";
import { Keys, Triggers } from "./reach.tsx";
import { Saved, type SavedFiles } from "./saved.tsx";
import { monthsOf, Used } from "./used.tsx";

type Claim = Kinds["claims"];
type Detail = ApiTypes["ClaimDetail"];

const MOST_CLAIMS = 50;
/** Claims whose addresses and Events are read: the first ones by workload, one request each. */
const MOST_DETAILS = 10;
const MOST_EVENTS = 20;
const MOST_SNAPSHOTS = 50;
/** Minimum time between two reads of the details. */
const DETAILS_MS = 2000;
/** How long the page waits for all of its sections. */
const LATE_MS = 2000;

/** A tenant: its claims, files, limits, usage and Events, and what can claim for it. */
export default function Tenant({ params }: { params: PageParams }) {
  const { id = "" } = params;
  const claims = live("claims");
  claims.version.value;
  const rows = [...claims.rows.values()].filter(({ tenantId }) => tenantId === id).sort(byWorkload);
  // A change of a phase changes what is used, and a release saves files.
  const version = rows.map(({ workloadRef, phase, reason }) => `${workloadRef} ${phase} ${reason}`).join();
  const months = monthsOf();
  const query = new URLSearchParams({ from: months.last.from, to: months.now.to, by: "day", tenant: id });
  const usage = useLoad(String(query), (signal) => readUsage(query, signal));
  const saved = useLoad(`snapshots ${id}`, (signal) => readSnapshots(id, signal), version);
  const details = useLoad(
    rows.length === 0 ? undefined : `details ${id}`,
    (signal) => readDetails(rows.slice(0, MOST_DETAILS), signal),
    version,
    DETAILS_MS,
  );
  const limits = useLimits(id, version);
  const acts = useActs();
  const lists = [claims, ...(seesService() ? [live("triggers")] : [])];
  const isEmpty = rows.length + (saved.value?.list.length ?? 0) === 0;
  // Usage can take long, and its section has the same height before. Only an empty page needs it.
  const loads = [saved, limits, ...(rows.length > 0 ? [details] : []), ...(isEmpty ? [usage] : [])];
  const isShown = useSettled(
    lists.every(({ state }) => state.value !== "loading") &&
      loads.every(({ value, error }) => value !== undefined || error !== undefined),
  );
  const isRead = claims.state.value !== "loading" && saved.value !== undefined && (usage.value ?? usage.error);
  const isUnknown = isRead && isEmpty && (usage.value?.sums.length ?? 0) === 0;
  const tenant = encodeURIComponent(id);
  const heading = (
    <>
      {seesService() && (
        <p class="crumbs">
          <a href="/dashboard/tenants">Tenants</a>
        </p>
      )}
      <h1>
        {id} <small>tenant</small>
      </h1>
    </>
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
  const links = (
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
  );
  if (!isShown) {
    return (
      <>
        {heading}
        {links}
        <p class="muted">Reading…</p>
      </>
    );
  }
  return (
    <>
      {heading}
      {links}
      <Outcome acts={acts} />
      {isUnknown && seesService() && (
        <p>
          Nothing is known of a tenant with this id: it has no claims and no saved files, and used nothing since the
          start of last month. A tenant needs no other step than its first claim.
        </p>
      )}
      <section aria-labelledby="claims">
        <h2 id="claims">Claims</h2>
        {rows.length === 0 && (
          <p class="muted">{claims.state.value === "loading" ? "Loading…" : "It has no claims."}</p>
        )}
        {rows.length > 0 && <Claims of={rows.slice(0, MOST_CLAIMS)} details={details.value ?? new Map()} acts={acts} />}
        {rows.length > MOST_CLAIMS && (
          <p>
            <a href={`/dashboard/claims?tenant=${tenant}`}>All {rows.length.toLocaleString()} claims</a>
          </p>
        )}
        <Unread error={details.error} />
      </section>
      <Saved of={id} saved={saved} acts={acts} />
      <TenantLimits of={limits} />
      <Used months={months} usage={usage} />
      {details.value !== undefined && <LatestEvents of={details.value} />}
      <Triggers of={id} />
      <Keys of={id} />
    </>
  );
}

/** True once all is read, or after a while: nothing above a section comes later and moves it. */
function useSettled(isSettled: boolean): boolean {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), LATE_MS);
    return () => clearTimeout(timer);
  }, []);
  const isShown = useRef(false);
  isShown.current ||= isSettled || isLate;
  return isShown.current;
}

function byWorkload(a: Claim, b: Claim): number {
  return a.workloadRef < b.workloadRef ? -1 : 1;
}

/** The details by workload; a claim that has ended has none. */
async function readDetails(claims: readonly Claim[], signal: AbortSignal): Promise<Map<string, Detail>> {
  const details = await Promise.all(claims.map((claim) => readClaim(claim, { signal }).catch(ifGone)));
  return new Map(details.filter((one) => one !== undefined).map((one) => [one.workloadRef, one]));
}

function LatestEvents({ of }: { of: ReadonlyMap<string, Detail> }) {
  const details = [...of.values()];
  const events = details
    .flatMap(({ workloadRef, events: own = [] }) => own.map((event) => ({ ...event, workloadRef })))
    .sort((a, b) => (a.at < b.at ? -1 : 1))
    .slice(-MOST_EVENTS);
  const eventsProblem = details.find((one) => one.eventsProblem !== undefined)?.eventsProblem;
  return <Events of={{ events, eventsProblem }} />;
}

async function readSnapshots(tenantId: string, signal: AbortSignal): Promise<SavedFiles> {
  const query = new URLSearchParams({ tenant: tenantId, versions: "true", limit: String(MOST_SNAPSHOTS) });
  const response = await send("GET", `/snapshots?${query}`, { signal });
  return { list: (await response.json()) as ApiTypes["Snapshot"][], hasMore: response.headers.has("x-tenancy-next") };
}
