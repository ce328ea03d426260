import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct, mayChange } from "../api/access.ts";
import { call } from "../api/call.ts";
import { clockAheadMs, type Kinds, lastHeardAt, listProblem, live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { retry } from "../claims/claim.ts";
import { fixOf } from "../claims/fix-of.ts";
import { remedyOf } from "../claims/remedies.ts";
import { Act, Outcome, useActs } from "../parts/acts.tsx";
import { Long } from "../parts/long.tsx";
import { Problem } from "../parts/problem.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { State } from "../parts/state.tsx";
import { TenantLink } from "../parts/tenant-link.tsx";
import { useThrottled } from "../parts/throttled.ts";
import { durationWords } from "../parts/time-words.ts";
import { poolSize } from "../pools/pool-size.ts";
import { type Figures, figuresOf } from "./figures.ts";
import { findTroubles, headingWords, isPoolEmpty, isWaiting, SLOW_MS, type Trouble } from "./troubles.ts";

/** Minimum time between two checks for problems. */
const LOOK_MS = 500;
/** Minimum time between two reads of the history; it is not read while nothing changes. */
const HISTORY_MS = 10_000;
const MOST_TROUBLES = 8;
/** A cause of more than one line is shortened to this much of its start and end. */
const CAUSE_EDGE = 55;
/** Takes the room of a cause until that is read. */
const LIKELY_CAUSE = "a cause is read ".repeat(8);
const MOST_POOLS = 12;

export default function Overview() {
  const { troubles, active, states } = useTroubles();
  const claims = live("claims");
  const version = useThrottled(() => claims.version.value, HISTORY_MS);
  const history = useLoad(
    "history",
    (signal) => call<ApiTypes["ClaimHistory"]>("GET", "/history/claims", { signal }),
    version,
  );
  const figures = useMemo(() => history.value && figuresOf(history.value), [history.value]);
  const count = troubles.length;
  const heardAt = new Date(lastHeardAt.peek()).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  useEffect(() => {
    document.title = count === 0 ? "tenancy" : `(${count}) tenancy`;
  }, [count]);
  return (
    <>
      <h1>
        {headingWords({ states, count, heardAt })}
        <small>{!states.includes("loading") && summary(active, figures)}</small>
      </h1>
      {count > 0 && <Troubles troubles={troubles} />}
      {/* After the lists, unless one cannot be read: what is wrong would push it down. */}
      {(!states.includes("loading") || listProblem.value !== undefined) && (
        <>
          {mayChange() && <Begin />}
          <LastHour figures={figures} since={history.value?.since} />
          <Problem error={history.error} />
          <Pools />
        </>
      )}
    </>
  );
}

/** For the first visit: what to do while there is nothing to claim. */
function Begin() {
  const workloads = live("workloads");
  void workloads.version.value;
  if (workloads.state.value === "loading" || workloads.rows.size > 0) return null;
  return (
    <section aria-labelledby="begin">
      <h2 id="begin">Begin</h2>
      <p>
        Create a workload from a template, then claim it for a tenant: its page shows how long each step of the start
        takes.
      </p>
      <a class="button primary" href="/dashboard/create/workload">
        Create a workload
      </a>
    </section>
  );
}

function summary(active: number, figures: Figures | undefined): string {
  return [
    `${active.toLocaleString()} ${active === 1 ? "claim" : "claims"} active`,
    figures !== undefined && figures.perMinute > 0 && `${figures.perMinute.toLocaleString()} new per minute`,
    figures?.p99Ms !== undefined && `p99 about ${durationWords(figures.p99Ms)}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** The problems that the current lists show. */
function useTroubles(): { troubles: Trouble[]; active: number; states: string[] } {
  const lists = {
    claims: live("claims"),
    workloads: live("workloads"),
    pools: live("pools"),
    triggers: live("triggers"),
  };
  const states = Object.values(lists).map(({ state }) => state.value);
  const version = useThrottled(() => Object.values(lists).reduce((sum, list) => sum + list.version.value, 0), LOOK_MS);
  const [look, setLook] = useState(0);
  /** Since when each claim waits and each pool is empty. Messages do not contain it, so the page measures it. */
  const slowSince = useRef(new Map<string, number>());
  const { nextMs, ...found } = useMemo(() => {
    const now = performance.now();
    const before = slowSince.current;
    const since = new Map<string, number>();
    let active = 0;
    for (const [key, claim] of lists.claims.rows) {
      if (claim.phase === "Active") active += 1;
      if (isWaiting(claim)) since.set(waitKey(key, claim), before.get(waitKey(key, claim)) ?? now - ageMs(claim));
    }
    for (const pool of lists.pools.rows.values()) {
      const key = `pool ${pool.name}`;
      if (isPoolEmpty(pool)) since.set(key, before.get(key) ?? now);
    }
    slowSince.current = since;
    const msOf = (key: string): number => now - (since.get(key) ?? now);
    const young = [...since.values()].map((at) => now - at).filter((ms) => ms < SLOW_MS);
    return {
      active,
      troubles: findTroubles({
        claims: lists.claims.rows.values(),
        workloads: lists.workloads.rows.values(),
        pools: lists.pools.rows.values(),
        triggers: lists.triggers.rows.values(),
        waitingMs: (claim) => msOf(waitKey(lists.claims.keyOf(claim), claim)),
        emptyMs: ({ name }) => msOf(`pool ${name}`),
      }),
      nextMs: young.length === 0 ? undefined : SLOW_MS - Math.max(...young),
    };
    // The first look is in the step that shows the lists, and not a throttled one after it.
  }, [version, look, states.includes("loading")]);
  // A claim becomes slow without a message.
  useEffect(() => {
    if (nextMs === undefined) return;
    const timer = setTimeout(() => setLook((count) => count + 1), nextMs + 1);
    return () => clearTimeout(timer);
  }, [nextMs, look]);
  return { ...found, states };
}

function waitKey(key: string, { phase }: Kinds["claims"]): string {
  return `${phase} ${key}`;
}

/** For a claim that never had a pod: the time since its creation, by the edge's clock. */
function ageMs({ phase, createdAt, claimedAt }: Kinds["claims"]): number {
  if (phase !== "Pending" || createdAt === undefined || claimedAt !== undefined) return 0;
  return Math.max(0, Date.now() + clockAheadMs.peek() - Date.parse(createdAt));
}

function Troubles({ troubles }: { troubles: readonly Trouble[] }) {
  const more = troubles.length - MOST_TROUBLES;
  return (
    <section aria-labelledby="wrong">
      <h2 id="wrong">Problems</h2>
      <ul class="troubles">
        {troubles.slice(0, MOST_TROUBLES).map((trouble) => (
          <TroubleRow key={trouble.key} trouble={trouble} />
        ))}
      </ul>
      {more > 0 && <p class="muted">and {more} more</p>}
    </section>
  );
}

function TroubleRow({ trouble }: { trouble: Trouble }) {
  const { is, reason, what, claims, example, isOver, href } = trouble;
  const acts = useActs();
  // Messages on the connection have no status message.
  const path = example && `/tenants/${encodeURIComponent(example.tenantId)}`;
  const tenant = useLoad(path, (signal) => call<ApiTypes["Tenant"]>("GET", path ?? "", { signal }));
  const told = tenant.value?.claims.find(({ workloadRef }) => workloadRef === example?.workloadRef);
  const message = trouble.message ?? (told?.reason === reason ? told?.message : undefined);
  const isRead = path === undefined || tenant.value !== undefined || tenant.error !== undefined;
  const remedy = example === undefined ? undefined : remedyOf(reason);
  const fix = example && fixOf(reason, example);
  return (
    <li class={`is-${is}`}>
      <a class="trouble" href={href}>
        <span aria-hidden="true">▲</span> <b>{reason}</b> · {what}
      </a>
      {claims !== undefined && (
        <span>
          {claims.toLocaleString()} {claims === 1 ? "claim" : "claims"}
        </span>
      )}
      {message === undefined && !isRead && (
        <div class="wide reserved" aria-hidden="true">
          {LIKELY_CAUSE}
        </div>
      )}
      {message !== undefined && (
        <div class="wide">
          {example !== undefined && (
            <>
              {claims !== undefined && claims > 1 && <span class="muted">For example </span>}
              <TenantLink of={example.tenantId} />
              {": "}
            </>
          )}
          <Long of={message} edge={CAUSE_EDGE} />
        </div>
      )}
      {fix !== undefined && example !== undefined && (
        <div class="acts wide">
          {remedy !== undefined && <span class="muted">{remedy}</span>}
          <a class="button" href={fix.href}>
            {fix.word}
          </a>
          {isOver === true && claims === 1 && mayAct() && <Act acts={acts} verb="Retry" act={() => retry(example)} />}
        </div>
      )}
      <Outcome acts={acts} />
    </li>
  );
}

function LastHour({ figures, since }: { figures: Figures | undefined; since: string | undefined }) {
  if (figures === undefined) return null;
  const { claims, perMinute, hits, hitRate, errors, errorsPerMinute, sources } = figures;
  return (
    <section aria-labelledby="hour">
      <h2 id="hour">
        The last hour <small class="muted">this replica only{since !== undefined && sinceWords(since)}</small>
      </h2>
      <div class="cards">
        <Card name="New claims" value={`${perMinute.toLocaleString()} per minute`}>
          <Sparkline values={claims} label="New claims per minute" />
        </Card>
        <Card name="From a pool" value={hitRate === undefined ? "none yet" : `${hitRate.toFixed(1)} %`}>
          <Sparkline values={hits} label="From a pool, per minute" unit=" %" />
        </Card>
        <Card name="Errors" value={`${errorsPerMinute.toLocaleString()} per minute`}>
          <Sparkline values={errors} label="Errors per minute" />
        </Card>
      </div>
      {sources.length > 0 && <Latencies sources={sources} />}
    </section>
  );
}

function sinceWords(since: string): string {
  const started = new Date(since);
  const isWhole = Date.now() - started.getTime() > 59 * 60_000;
  return isWhole ? "" : `, since ${started.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`;
}

function Card({ name, value, children }: { name: string; value: string; children: ComponentChildren }) {
  return (
    <div class="card">
      <h3>{name}</h3>
      <strong>{value}</strong>
      {children}
    </div>
  );
}

function Latencies({ sources }: { sources: Figures["sources"] }) {
  return (
    <table class="latencies">
      <caption class="unseen">Latency by source</caption>
      <thead>
        <tr>
          <th scope="col">Source</th>
          <th scope="col" class="number">
            Claims
          </th>
          <th scope="col" class="number">
            p50
          </th>
          <th scope="col" class="number">
            p99
          </th>
          <th scope="col">p99 per minute</th>
        </tr>
      </thead>
      <tbody>
        {sources.map(({ source, hour, p99Ms }) => (
          <tr key={source}>
            <th scope="row">
              <a href={`/dashboard/claims?source=${encodeURIComponent(source)}`}>{source}</a>
            </th>
            <td class="number">{hour.claims.toLocaleString()}</td>
            <td class="number">{hour.p50Ms !== null && `about ${durationWords(hour.p50Ms)}`}</td>
            <td class="number">{hour.p99Ms !== null && `about ${durationWords(hour.p99Ms)}`}</td>
            <td>
              <Sparkline values={p99Ms} label={`p99 of ${source} per minute`} unit=" ms" />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Pools() {
  const pools = live("pools");
  void pools.version.value;
  // The emptiest pools first: they need attention.
  const rows = [...pools.rows.values()].sort((a, b) => shareOf(a) - shareOf(b) || (a.name < b.name ? -1 : 1));
  if (rows.length === 0) return null;
  return (
    <section aria-labelledby="pools">
      <h2 id="pools">Pools</h2>
      <table class="pools">
        <thead>
          <tr>
            <th scope="col">Pool</th>
            <th scope="col">State</th>
            <th scope="col">Ready</th>
            <th scope="col" class="number">
              Hits
            </th>
            <th scope="col" class="number">
              Misses
            </th>
            <th scope="col">Ready, last hour</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_POOLS).map((pool) => (
            <PoolRow key={pool.name} pool={pool} />
          ))}
        </tbody>
      </table>
      {rows.length > MOST_POOLS && <a href="/dashboard/pools">All {rows.length} pools</a>}
    </section>
  );
}

function PoolRow({ pool }: { pool: ApiTypes["Pool"] }) {
  const { name, status } = pool;
  const wanted = poolSize(pool);
  const pools = live("pools");
  const version = useThrottled(() => pools.version.value && pools.rows.get(name), HISTORY_MS, name);
  const path = `/pools/${encodeURIComponent(name)}/history`;
  const { value } = useLoad(path, (signal) => call<ApiTypes["PoolHistory"]>("GET", path, { signal }), version);
  const sum = (series: readonly number[] | undefined) =>
    series?.reduce((total, one) => total + one, 0).toLocaleString();
  return (
    <tr>
      <th scope="row">
        <a href={`/dashboard/pools/${name}`}>{name}</a>
      </th>
      <td>
        <State of={{ phase: status.phase, reason: status.reason }} />
      </td>
      <td>
        <meter
          min={0}
          max={Math.max(1, wanted)}
          value={status.ready}
          aria-label={`${status.ready} of ${wanted} ready`}
        />{" "}
        {status.ready} of {wanted}
      </td>
      <td class="number">{sum(value?.hits)}</td>
      <td class="number">{sum(value?.misses)}</td>
      <td>{value !== undefined && <Sparkline values={value.lowest} label={`Fewest ready pods of ${name}`} />}</td>
    </tr>
  );
}

function shareOf(pool: ApiTypes["Pool"]): number {
  return pool.status.ready / Math.max(1, poolSize(pool));
}
