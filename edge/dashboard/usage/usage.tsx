import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { listedTenants } from "../api/access.ts";
import { clockAheadMs } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { Choice } from "../parts/choice.tsx";
import { FilterText } from "../parts/filter-text.tsx";
import { Problem } from "../parts/problem.tsx";
import { TenantLink } from "../parts/tenant-link.tsx";
import { WorkloadLink } from "../parts/workload-link.tsx";
import { changeQuery, hrefWith, place } from "../route.ts";
import { Amounts, Bars, Totals } from "./bars.tsx";
import { readUsage } from "./read-usage.ts";
import {
  dayAt,
  daysOf,
  eachDay,
  type groups,
  measures,
  plusDays,
  ranges,
  readView,
  total,
  type UsageView,
} from "./view.ts";

type Usage = ApiTypes["Usage"];

const PAGE_SUMS = 100;
/** The most that the API puts into one answer. */
const MOST_SUMS = 1000;

/** What tenants used: a chart and a table, as the page's address says. */
export default function UsagePage() {
  const tenants = listedTenants();
  const view = readView(place.value.searchParams, tenants);
  const today = dayAt(Date.now() + clockAheadMs.value);
  const isMissing = tenants !== undefined && view.tenant === "";
  const days = isMissing ? undefined : daysOf(view, today);
  const queryOf = (more: Record<string, string>): URLSearchParams =>
    new URLSearchParams({ ...days, ...(view.tenant !== "" && { tenant: view.tenant }), ...more });
  const byDay = queryOf({ by: "day", limit: String(PAGE_SUMS) });
  const chart = useLoad(days && String(byDay), (signal) => readUsage(byDay, signal));
  const sums = chart.value?.sums;
  // One after the other, as the API reads for a tenant's key.
  const page = { by: view.by, ...(view.after !== "" && { after: view.after }) };
  const listed = queryOf({ ...page, limit: String(PAGE_SUMS) });
  const list = useLoad(sums && view.by !== "day" ? String(listed) : undefined, (signal) => readUsage(listed, signal));
  const shown = view.by === "day" ? chart : list;
  const error = chart.error ?? list.error;
  return (
    <>
      <div class="title">
        <h1>Usage</h1>
        {days !== undefined && (
          <a
            class="button"
            download
            href={`/api/v1/usage?${queryOf({ ...page, limit: `${MOST_SUMS}`, format: "csv" })}`}
          >
            Download CSV
          </a>
        )}
        <p class="muted">Days are of UTC. A session that goes on counts up to the last whole hour.</p>
      </div>
      <Choices view={view} today={today} />
      {isMissing && <p>Choose a tenant.</p>}
      {!isMissing && days === undefined && (
        <p role="alert">Choose a first and a last day: at most 92 days, the first one first.</p>
      )}
      <Problem error={error} />
      {error !== undefined && (
        <div class="acts">
          <button type="button" onClick={chart.error === undefined ? list.again : chart.again}>
            Try again
          </button>
        </div>
      )}
      {days !== undefined && error === undefined && (
        <>
          <Totals of={sums && total(sums)} />
          {/* Days without use are zero, also before the days are read: nothing below them moves. */}
          <section aria-label="Each day">
            <Bars days={eachDay(days, sums ?? [])} measure={view.chart} hasTable={view.by !== "day"} />
          </section>
          <section aria-labelledby="sums">
            <h2 id="sums">By {view.by}</h2>
            {shown.value === undefined && <p class="muted">Reading…</p>}
            {shown.value?.sums.length === 0 && <p>{view.after === "" ? "Nothing was used." : "There are no more."}</p>}
            {shown.value !== undefined && shown.value.sums.length > 0 && <Sums of={shown.value.sums} by={view.by} />}
            <Pager view={view} next={shown.value?.next} />
          </section>
        </>
      )}
    </>
  );
}

function Choices({ view, today }: { view: UsageView; today: string }) {
  const { range, by, chart, tenant, first, last } = view;
  const tenants = listedTenants();

  function chooseRange(value: string): void {
    const days = daysOf(view, today);
    // Begin with the days that are shown.
    const typed = value === "days" && days ? { first: days.from, last: plusDays(days.to, -1) } : {};
    changeQuery({ range: value, first: "", last: "", ...typed, after: "" });
  }

  return (
    <search class="filter">
      <Choice label="Range" of={ranges} value={range} choose={chooseRange} />
      {range === "days" && (
        <>
          <DayField label="First day" value={first} choose={(value) => changeQuery({ first: value, after: "" })} />
          <DayField label="Last day" value={last} choose={(value) => changeQuery({ last: value, after: "" })} />
        </>
      )}
      <Choice
        label="Grouped by"
        of={{ tenant: "By tenant", workload: "By workload", day: "By day" }}
        value={by}
        choose={(value) => changeQuery({ by: value, after: "" })}
      />
      <Choice
        label="Chart"
        of={Object.fromEntries(Object.entries(measures).map(([name, { word }]) => [name, word]))}
        value={chart}
        choose={(value) => changeQuery({ chart: value })}
      />
      {tenants?.includes(tenant) ? (
        <Choice
          label="Tenant"
          of={Object.fromEntries(tenants.map((id) => [id, id]))}
          value={tenant}
          choose={(value) => changeQuery({ tenant: value, after: "" })}
        />
      ) : (
        <FilterText
          label="Tenant"
          placeholder={tenants === undefined ? "Tenant: all" : "Tenant"}
          maxLength={63}
          value={tenant}
          choose={(value) => changeQuery({ tenant: value, after: "" })}
        />
      )}
    </search>
  );
}

function DayField({ label, value, choose }: { label: string; value: string; choose(value: string): void }) {
  return <input type="date" aria-label={label} value={value} onChange={(event) => choose(event.currentTarget.value)} />;
}

function Sums({ of, by }: { of: readonly Usage[]; by: keyof typeof groups }) {
  return (
    <table class="stack sums" aria-labelledby="sums">
      <thead>
        <tr>
          <th scope="col">{{ tenant: "Tenant", workload: "Workload", day: "Day" }[by]}</th>
          {Object.values(measures).map(({ word }) => (
            <th key={word} scope="col" class="number">
              {word}
            </th>
          ))}
          <th scope="col">Sessions by source</th>
        </tr>
      </thead>
      <tbody>
        {of.map((sum) => (
          <tr key={keyOf(sum)}>
            <th scope="row">
              <Key of={sum} />
            </th>
            <Amounts of={sum} />
            <td data-label="by source">
              {Object.entries(sum.sources)
                .map(([source, count]) => `${source} ${count.toLocaleString()}`)
                .join(", ")}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function keyOf({ tenantId, workload, day }: Usage): string {
  return tenantId ?? workload ?? day ?? "";
}

function Key({ of: { workload, tenantId, day } }: { of: Usage }) {
  if (workload !== undefined) return <WorkloadLink of={workload} />;
  return tenantId === undefined ? <span>{day}</span> : <TenantLink of={tenantId} />;
}

function Pager({ view: { after, by }, next }: { view: UsageView; next: string | undefined }) {
  if (after === "" && next === undefined) return null;
  return (
    <div class="acts">
      {after !== "" && (
        <a class="button" href={hrefWith({ after: "" })}>
          First page
        </a>
      )}
      {next !== undefined && (
        <>
          <a class="button" href={hrefWith({ after: next })}>
            Next {PAGE_SUMS}
          </a>
          <p class="muted">There are more. They are sorted by {by}.</p>
        </>
      )}
    </div>
  );
}
