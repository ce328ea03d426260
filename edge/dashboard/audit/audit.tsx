import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call, send } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { session } from "../api/session.ts";
import { Outcome, Refresh, useActs } from "../parts/acts.tsx";
import { Choice } from "../parts/choice.tsx";
import { FilterText } from "../parts/filter-text.tsx";
import { Problem, Reading } from "../parts/problem.tsx";
import { TenantLink } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import { changeQuery, hrefWith, place } from "../route.ts";

type Log = ApiTypes["AuditLog"];
type Entry = Log["records"][number];

const PAGE_RECORDS = 100;
const classes = { done: "", refused: "is-warn", failed: "is-bad", aborted: "muted" } as const;

/** Who changed or looked at what, on the replica that answers, as the page's address says. */
export default function Audit() {
  const { searchParams } = place.value;
  const given = (name: string): string => searchParams.get(name) ?? "";
  const query = new URLSearchParams({ limit: String(PAGE_RECORDS) });
  for (const name of ["actor", "tenant", "act", "after"]) if (given(name) !== "") query.set(name, given(name));
  const log = useLoad(String(query), (signal) => readLog(query, signal));
  const names = useKeyNames();
  const acts = useActs();
  const { replica, records, since, omitted = 0, next } = log.value ?? {};
  return (
    <>
      <h1>Who did what</h1>
      <search class="filter">
        {["Actor", "Tenant"].map((label) => {
          const name = label.toLowerCase();
          const choose = (value: string) => changeQuery({ [name]: value, after: "" });
          return (
            <FilterText
              key={name}
              {...{ label, choose, value: given(name) }}
              {...{ placeholder: `${label}: all`, maxLength: 512 }}
            />
          );
        })}
        <Choice
          label="Act"
          of={{ "": "Changes and looks", change: "Changes", look: "Looks" }}
          value={given("act")}
          choose={(act) => changeQuery({ act, after: "" })}
        />
        <Refresh acts={acts} again={log.again} />
      </search>
      <Outcome acts={acts} />
      <Problem error={log.error} />
      <Reading of={log} />
      {since !== undefined && (
        <p class="muted">
          These are the records of replica <code>{replica}</code>, which has all since <When at={since} />. Older ones,
          and those of other replicas, are in the log of the edge.
          {omitted > 0 && ` ${omitted.toLocaleString()} requests without a valid key were too many to be recorded.`}
        </p>
      )}
      {records?.length === 0 && <p>No such record.</p>}
      {records !== undefined && records.length > 0 && <Records of={records} names={names} />}
      {(next !== undefined || given("after") !== "") && (
        <div class="acts">
          {given("after") !== "" && (
            <a class="button" href={hrefWith({ after: "" })}>
              Newest
            </a>
          )}
          {next !== undefined && (
            <a class="button" href={hrefWith({ after: next })}>
              Older
            </a>
          )}
        </div>
      )}
    </>
  );
}

async function readLog(query: URLSearchParams, signal: AbortSignal): Promise<Log & { next: string | undefined }> {
  const response = await send("GET", `/audit?${query}`, { signal });
  return { ...((await response.json()) as Log), next: response.headers.get("x-tenancy-next") ?? undefined };
}

/** The names of the keys that exist, by id. Without them, records show the ids. */
function useKeyNames(): ReadonlyMap<string, string> {
  const hasKeys = session.value?.asksForKey === true;
  const keys = useLoad(hasKeys ? "keys" : undefined, (signal) => call<ApiTypes["Key"][]>("GET", "/keys", { signal }));
  return new Map(keys.value?.map(({ id, name }) => [id, name]));
}

function Records({ of, names }: { of: readonly Entry[]; names: ReadonlyMap<string, string> }) {
  return (
    <table class="stack" aria-label="Records">
      <thead>
        <tr>
          {["When", "Who", "Request", "About", "Answer", "From"].map((title) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {of.map(({ time, requestId, stage, actor, method, route, object, status, outcome, address, ms }) => (
          <tr key={`${requestId} ${stage} ${time}`}>
            <th scope="row">
              <When at={time} />
            </th>
            <td>
              <a href={hrefWith({ actor: idOf(actor), after: "" })}>{idOf(actor)}</a>
              {actor.kind === "key" && ` ${names.get(actor.id ?? "") ?? ""}`}
            </td>
            <td>
              <code>
                {method} {route.replace("/api/v1", "")}
              </code>
            </td>
            <td>
              {Object.entries(object).map(([kind, value], at) => (
                <span key={kind}>
                  {at > 0 && ", "}
                  {kind} {kind === "tenant" || kind === "toTenant" ? <TenantLink of={value} /> : <code>{value}</code>}
                </span>
              ))}
            </td>
            <td class={classes[outcome]} title={`${ms} ms`}>
              {status} {outcome}
              {stage === "ResponseStarted" && ", still open"}
            </td>
            <td data-label="from">{address}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** As `?actor=` takes it. */
function idOf({ kind, id }: Entry["actor"]): string {
  if (id === undefined) return kind;
  return kind === "person" || kind === "serviceAccount" ? `${kind}:${id}` : id;
}
