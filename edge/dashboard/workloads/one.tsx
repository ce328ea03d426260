import { useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { Act, type Acts } from "../parts/acts.tsx";
import { Facts } from "../parts/facts.tsx";
import { Log } from "../parts/log.tsx";
import { Long } from "../parts/long.tsx";
import { Problem } from "../parts/problem.tsx";
import { State } from "../parts/state.tsx";
import { durationWords } from "../parts/time-words.ts";
import { When } from "../parts/when.tsx";
import type { PageParams } from "../route.ts";
import { ObjectPage } from "../spec/object-page.tsx";
import { claimFailure, poolFailure } from "./listing.ts";
import { networkWords } from "./network-words.ts";

type Workload = ApiTypes["Workload"];

export default function One({ params }: { params: PageParams }) {
  const { name = "" } = params;
  // Read beforehand, since questions say what uses it.
  live("claims");
  live("pools");
  return (
    <ObjectPage
      kind="workloads"
      name={name}
      also={<Rolls name={name} />}
      lost={() => (
        <>
          <Users of={name} />
          <p>While something uses it, it stays Terminating, and nothing new can use it. Tenants' saved files stay.</p>
        </>
      )}
      first={() => (
        <a class="button" href={`/dashboard/create/claim?workload=${name}`}>
          Claim
        </a>
      )}
    >
      {({ row, acts }) => <Shown row={row} acts={acts} />}
    </ObjectPage>
  );
}

function Shown({ row, acts }: { row: Workload; acts: Acts }) {
  const { name, spec, status, createdAt } = row;
  const { phase, reason, message, image } = status;
  const { overlayDirs = [] } = spec.filesystem ?? {};
  const text = JSON.stringify(spec, null, 2);
  const failure = useFailure(name);
  return (
    <>
      <Facts
        of={[
          ["State", <State key="state" of={{ phase, reason: reason ?? failure?.reason }} />],
          ["Image", <code key="image">{image ?? spec.image.ref ?? "not built yet"}</code>],
          ["Version", spec.version],
          ["Files kept", overlayDirs.length === 0 ? "none" : overlayDirs.join(", ")],
          ["Released when idle", idleWords(spec.idle)],
          ["Created", <When key="created" at={createdAt} />],
          [
            "Claims",
            <a key="claims" href={`/dashboard/claims?workload=${name}`}>
              claims on it
            </a>,
          ],
        ]}
      />
      {(reason !== undefined || message !== undefined) && (
        <section aria-labelledby="reason">
          <h2 id="reason" class={phase === "Error" ? "is-bad" : "is-warn"}>
            {reason ?? phase}
          </h2>
          <div class="said">{message !== undefined && <Long of={message} />}</div>
        </section>
      )}
      {reason === undefined && failure !== undefined && (
        <section aria-labelledby="failure">
          <h2 id="failure" class="is-bad">
            {failure.reason}
          </h2>
          <p>
            The workload itself can be claimed, but what uses it fails: <a href={failure.href}>{failure.what}</a>.
          </p>
        </section>
      )}
      <section aria-labelledby="network">
        <h2 id="network">Network</h2>
        <ul>
          {networkWords(spec.network).map((words) => (
            <li key={words}>{words}</li>
          ))}
        </ul>
      </section>
      <Pools of={name} />
      {spec.image.dockerfile !== undefined && <Build name={name} version={status} acts={acts} />}
      <section aria-labelledby="spec">
        <h2 id="spec">Spec</h2>
        <textarea
          class="printed"
          readOnly
          aria-labelledby="spec"
          rows={Math.min(24, text.split("\n").length)}
          value={text}
        />
      </section>
    </>
  );
}

function Pools({ of }: { of: string }) {
  const pools = live("pools");
  pools.version.value;
  const own = [...pools.rows.values()].filter(({ spec }) => spec.workloadRef === of);
  return (
    <section aria-labelledby="pools">
      <h2 id="pools">Pools</h2>
      {own.length === 0 ? (
        <p class="muted">None: each claim starts a pod of its own.</p>
      ) : (
        <table aria-labelledby="pools">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                Ready of size
              </th>
            </tr>
          </thead>
          <tbody>
            {own.map(({ name, spec, status }) => (
              <tr key={name}>
                <th scope="row">
                  <a href={`/dashboard/pools/${name}`}>{name}</a>
                </th>
                <td>
                  <State of={{ phase: status.phase, reason: status.reason }} />
                </td>
                <td class="number">
                  {status.ready} of {spec.size}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p>
        <a href={`/dashboard/create/pool?workload=${of}`}>Make a pool</a>
      </p>
    </section>
  );
}

function Build({ name, version, acts }: { name: string; version: unknown; acts: Acts }) {
  const path = `/workloads/${encodeURIComponent(name)}/build`;
  const build = useLoad(path, (signal) => call<ApiTypes["Build"]>("GET", path, { signal }), version);
  const [isLogShown, setLogShown] = useState(false);
  const { state, reason, message, startedAt, finishedAt, steps, cached, commit, digest, tries } = build.value ?? {};
  const ms = Date.parse(finishedAt ?? "") - Date.parse(startedAt ?? "");
  return (
    <section aria-labelledby="build">
      <h2 id="build">Build</h2>
      <Problem error={build.error} />
      <Facts
        of={[
          ["State", state !== undefined && <State of={{ phase: state }} />],
          ["Took", Number.isNaN(ms) ? undefined : durationWords(ms)],
          ["Ended", finishedAt !== undefined && <When at={finishedAt} />],
          ["Steps", steps !== undefined && `${steps}, of which ${cached ?? 0} were in the cache`],
          ["Commit", commit !== undefined && <code>{commit}</code>],
          ["Digest", digest !== undefined && <code>{digest}</code>],
          ["Failed tries", tries === undefined ? undefined : String(tries)],
        ]}
      />
      {reason !== undefined && (
        <div class="said">
          <b>{reason}</b> {message !== undefined && <Long of={message} />}
        </div>
      )}
      <div class="acts">
        <Act acts={acts} verb="Build anew" act={() => rebuild(path, name)} />
        <button type="button" aria-expanded={isLogShown} onClick={() => setLogShown(!isLogShown)}>
          Log of the build
        </button>
      </div>
      {isLogShown && <Log path={`${path}/logs`} label={`Log of the build of ${name}`} />}
    </section>
  );
}

async function rebuild(path: string, name: string): Promise<string> {
  await call("POST", path);
  return `${name} is built anew; the present image serves until then.`;
}

/** What uses a workload, as the page knows it. */
function Users({ of }: { of: string }) {
  const users = useUsers(of);
  if (users === undefined) return <p>{UNKNOWN}</p>;
  const [claims, pools] = [users.claims.length, users.pools.length];
  return (
    <p>
      {claims} {claims === 1 ? "claim" : "claims"} and {pools} {pools === 1 ? "pool" : "pools"} use it now.
    </p>
  );
}

const UNKNOWN = "What uses it is not known: the lists are still being read, or the connection is lost.";

/** The claims and pools of a workload; undefined while one of their lists is not as it is. */
function useUsers(name: string): { claims: Kinds["claims"][]; pools: Kinds["pools"][] } | undefined {
  const [claims, pools] = [live("claims"), live("pools")];
  void (claims.version.value + pools.version.value);
  if (claims.state.value !== "live" || pools.state.value !== "live") return undefined;
  return {
    claims: [...claims.rows.values()].filter(({ workloadRef }) => workloadRef === name),
    pools: [...pools.rows.values()].filter(({ spec }) => spec.workloadRef === name),
  };
}

/** The first of what uses the workload and fails by its doing. */
function useFailure(name: string): { reason: string; what: string; href: string } | undefined {
  const { claims = [], pools = [] } = useUsers(name) ?? {};
  const claim = claims.find((one) => claimFailure(one) !== undefined);
  if (claim?.reason !== undefined) {
    const alike = claims.filter(({ reason }) => reason === claim.reason).length;
    const what = alike === 1 ? `the claim of ${claim.tenantId}` : `${alike} claims`;
    const query = new URLSearchParams({ workload: name, reason: claim.reason });
    return { reason: claim.reason, what, href: `/dashboard/claims?${query}` };
  }
  const pool = pools.find((one) => poolFailure(one) !== undefined);
  return (
    pool && { reason: poolFailure(pool) ?? "", what: `the pool ${pool.name}`, href: `/dashboard/pools/${pool.name}` }
  );
}

/** What a change does to what runs. */
function Rolls({ name }: { name: string }) {
  const users = useUsers(name);
  if (users === undefined) return <p>{UNKNOWN}</p>;
  const { pools } = users;
  const pods = pools.reduce((sum, { status }) => sum + status.ready + status.warming, 0);
  const claimed = users.claims.filter(({ instanceId }) => instanceId !== undefined).length;
  return (
    <p>
      {pools.length} {pools.length === 1 ? "pool rolls" : "pools roll"} to it ({pods} {pods === 1 ? "pod" : "pods"});{" "}
      {claimed} claimed {claimed === 1 ? "pod stays as it is" : "pods stay as they are"}.
    </p>
  );
}

function idleWords({ timeoutSeconds, action = "hibernate" }: NonNullable<Workload["spec"]["idle"]> = {}): string {
  if (timeoutSeconds === undefined) return "never";
  return `after ${durationWords(timeoutSeconds * 1000)}, ${action === "destroy" ? "its files are not saved" : "its files are saved"}`;
}
