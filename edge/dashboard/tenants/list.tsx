import { useEffect, useRef } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { send } from "../api/call.ts";
import { clockAheadMs, live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { Command, curlLine } from "../parts/command.tsx";
import { useKey } from "../parts/keys.ts";
import { Unread } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { TenantLink } from "../parts/tenant-link.tsx";
import { useThrottled } from "../parts/throttled.ts";
import { changeQuery, hrefWith, place } from "../route.ts";
import { readUsage } from "../usage/read-usage.ts";
import { amountWords, dayAt, daysOf, measures } from "../usage/view.ts";
import { LimitState, worstLimit } from "./limits.tsx";
import {
  type ClaimCounts,
  countClaims,
  pageOfClaiming,
  readTenantsView,
  type TenantSort,
  type TenantsView,
  usageOrder,
} from "./listing.ts";

type Summary = ApiTypes["TenantSummary"];
type Usage = ApiTypes["Usage"];

const PAGE_TENANTS = 50;
/** How often the claims of all tenants are counted. */
const COUNT_MS = 1000;
/** Minimum time between two reads of a page by id: it is read again when other tenants have claims. */
const READ_MS = 10_000;
/** Delay between the last key and the change of the address. */
const TYPING_MS = 250;

const columns: readonly { readonly sort?: TenantSort; readonly title: string; readonly isNumber?: true }[] = [
  { sort: "tenant", title: "Tenant" },
  { sort: "claims", title: "Claims" },
  { title: "Saved files", isNumber: true },
  { sort: "vcpu", title: measures.vcpu.word, isNumber: true },
  { sort: "gib", title: measures.gib.word, isNumber: true },
  { sort: "saved", title: measures.saved.word, isNumber: true },
  { title: "Limits" },
];
const orders: Readonly<Record<TenantSort, string>> = {
  tenant: "Order by id",
  claims: "Failing claims first",
  vcpu: `Most ${measures.vcpu.word} first`,
  gib: `Most ${measures.gib.word} first`,
  saved: `Most ${measures.saved.word} first`,
};

/** The tenants, a page at a time. */
export default function Tenants() {
  const view = readTenantsView(place.value.searchParams);
  const { rows, next, errors, isReading } = useTenants(view);
  return (
    <>
      <div class="title">
        <h1>Tenants</h1>
        <p class="muted">{viewWords(view)} Use is of this month, days of UTC.</p>
      </div>
      <Choices view={view} />
      {isReading && <p class="muted">Reading…</p>}
      {rows?.length === 0 && <Nothing view={view} />}
      {rows !== undefined && rows.length > 0 && (
        <table class="stack sums" aria-label="Tenants">
          <Head sort={view.sort} />
          <tbody>
            {rows.map((row) => (
              <Row key={row.id} {...row} />
            ))}
          </tbody>
        </table>
      )}
      {/* Above the table they would push it down. */}
      {errors.map((error) => (
        <Unread key={error.message} error={error} />
      ))}
      <div class="acts">
        {view.after !== "" && (
          <a class="button" href={hrefWith({ after: "" })}>
            First page
          </a>
        )}
        {next !== undefined && (
          <a class="button" href={hrefWith({ after: next })}>
            Next {PAGE_TENANTS}
          </a>
        )}
      </div>
    </>
  );
}

interface TenantRow {
  readonly id: string;
  readonly claims: ClaimCounts | undefined;
  /** Undefined until it is read. */
  readonly summary: Summary | undefined;
  /** Undefined until it is read; null for a tenant without use. */
  readonly usage: Usage | null | undefined;
}

/**
 * A page of tenants. The ids come from what they are sorted by: the API's list, its sums of usage, or the claims that
 * the dashboard follows. The other columns are read for these ids only.
 */
function useTenants(view: TenantsView) {
  const { sort, prefix, after } = view;
  const list = live("claims");
  const counts = useThrottled(() => {
    list.version.value;
    return countClaims(list.rows.values());
  }, COUNT_MS);
  const order = usageOrder(view);
  const page = { limit: String(PAGE_TENANTS), ...(prefix !== "" && { prefix }), ...(after !== "" && { after }) };
  const month = { ...daysOf({ range: "month", first: "", last: "" }, dayAt(Date.now() + clockAheadMs.peek())) };

  const sortedQuery = order && queryOf({ ...month, ...page, order });
  const sorted = useLoad(sortedQuery, (signal) => readUsage(new URLSearchParams(sortedQuery), signal));
  const claiming =
    sort === "claims" && list.state.value !== "loading"
      ? pageOfClaiming(counts, { ...view, limit: PAGE_TENANTS })
      : undefined;
  const sortedIds = claiming?.ids ?? sorted.value?.sums.map(({ tenantId = "" }) => tenantId);
  const summaryQuery = sort === "tenant" ? queryOf(page) : namesQuery(sortedIds);
  const version = sort === "tenant" ? counts.size : 0;
  const summaries = useLoad(summaryQuery, (signal) => readSummaries(summaryQuery, signal), version, READ_MS);
  const ids = sort === "tenant" ? summaries.value?.list.map(({ tenantId }) => tenantId) : sortedIds;
  const usedQuery = order === undefined ? namesQuery(ids, month) : undefined;
  const used = useLoad(usedQuery, (signal) => readUsage(new URLSearchParams(usedQuery), signal));

  const usage = order === undefined ? used : sorted;
  const summaryOf = new Map(summaries.value?.list.map((one) => [one.tenantId, one]));
  const usageOf = new Map(usage.value?.sums.map((one) => [one.tenantId, one]));
  const rows = ids?.map(
    (id): TenantRow => ({
      id,
      claims: counts.get(id),
      summary: summaryOf.get(id),
      usage: usageOf.get(id) ?? (usage.value && null),
    }),
  );
  const errors = [summaries.error, usage.error].filter((error) => error !== undefined);
  return {
    rows,
    next: claiming?.next ?? (order === undefined ? summaries.value?.next : sorted.value?.next),
    errors,
    isReading: rows === undefined && errors.length === 0,
  };
}

function queryOf(fields: Readonly<Record<string, string>>): string {
  return String(new URLSearchParams(fields));
}

/** The query for some tenants. Their order is left out of it: rows that change places are not read again. */
function namesQuery(ids: readonly string[] | undefined, more: Readonly<Record<string, string>> = {}) {
  return ids === undefined || ids.length === 0 ? undefined : queryOf({ ...more, tenants: [...ids].sort().join() });
}

async function readSummaries(query: string | undefined, signal: AbortSignal) {
  const response = await send("GET", `/tenant-summaries?${query}`, { signal });
  return { list: (await response.json()) as Summary[], next: response.headers.get("x-tenancy-next") ?? undefined };
}

function viewWords({ sort }: TenantsView): string {
  if (sort === "tenant") return "All with a claim, saved files, or limits of their own, by id.";
  if (sort === "claims") return "All with a claim, those with failing claims first.";
  return `All with use, most ${measures[sort].word} first.`;
}

function Choices({ view: { sort, prefix } }: { view: TenantsView }) {
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  // Back and links change the address; the field that has the focus is left alone.
  useEffect(() => {
    const input = field.current;
    if (input !== null && document.activeElement !== input) input.value = prefix;
  }, [prefix]);
  useKey("/", "Search", () => field.current?.focus());
  return (
    <search class="filter">
      <input
        ref={field}
        type="search"
        aria-label="Start of the tenant's id"
        placeholder="Id begins with  /"
        maxLength={63}
        autocomplete="off"
        spellcheck={false}
        defaultValue={prefix}
        onInput={({ currentTarget: { value } }) => {
          clearTimeout(timer.current);
          timer.current = setTimeout(() => changeQuery({ prefix: value.trim(), after: "" }), TYPING_MS);
        }}
      />
      <select
        class="order"
        aria-label="Order"
        value={sort}
        onChange={({ currentTarget: { value } }) => changeQuery({ sort: value, after: "" })}
      >
        {Object.entries(orders).map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </search>
  );
}

function Head({ sort: current }: { sort: TenantSort }) {
  return (
    <thead>
      <tr>
        {columns.map(({ sort, title, isNumber }) => {
          if (sort === undefined)
            return (
              <th key={title} scope="col" class={isNumber ? "number" : ""}>
                {title}
              </th>
            );
          const isCurrent = sort === current;
          const direction = sort === "tenant" ? "ascending" : "descending";
          return (
            <th key={title} scope="col" class={isNumber ? "number" : ""} aria-sort={isCurrent ? direction : "none"}>
              <button type="button" class="sort" title={orders[sort]} onClick={() => changeQuery({ sort, after: "" })}>
                {title}
                <span aria-hidden="true">{isCurrent ? (sort === "tenant" ? " ↑" : " ↓") : ""}</span>
              </button>
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

function Row({ id, claims, summary, usage }: TenantRow) {
  return (
    <tr>
      <th scope="row">
        <TenantLink of={id} />
      </th>
      <td data-label="claims">
        {claims?.all ?? 0}
        {claims !== undefined && claims.failing > 0 && (
          <span class="is-bad">
            {" "}
            <span aria-hidden="true">▲</span> {claims.failing} failing
          </span>
        )}
      </td>
      <td class="number" data-label="saved">
        {summary === undefined ? "–" : savedWords(summary.saved)}
      </td>
      {(["vcpu", "gib", "saved"] as const).map((name) => (
        <td key={name} class="number" data-label={measures[name].word}>
          {usage === undefined ? "–" : usage === null ? "0" : amountWords(measures[name].of(usage))}
        </td>
      ))}
      <td data-label="limits">{summary === undefined ? "–" : <Limits of={summary} />}</td>
    </tr>
  );
}

function savedWords({ versions, bytes }: Summary["saved"]): string {
  if (versions === 0) return "none";
  return `${sizeWords(bytes)} in ${versions.toLocaleString()} ${versions === 1 ? "version" : "versions"}`;
}

function Limits({ of: { class: name, limits } }: { of: Summary }) {
  const worst = worstLimit(limits);
  if (Object.keys(limits).length === 0) return <span class="muted">none</span>;
  return (
    <>
      {name ?? "own"} {worst !== undefined && <LimitState of={worst} />}
    </>
  );
}

function Nothing({ view: { prefix, sort, after } }: { view: TenantsView }) {
  if (after !== "") return <p>There are no more.</p>;
  if (prefix !== "") {
    return (
      <p>
        No tenant {sort === "tenant" ? "with a claim, saved files or limits of its own" : "of this list"} has an id that
        begins with {prefix}. Open <TenantLink of={prefix} /> anyway.
      </p>
    );
  }
  if (sort !== "tenant") return <p>No tenant.</p>;
  return (
    <>
      <p>No tenants yet. A tenant needs no other step than its first claim. To claim the workload hello for alice:</p>
      <Command line={curlLine("/tenants/alice/claim", { workload: "hello" })} />
    </>
  );
}
