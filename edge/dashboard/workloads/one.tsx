import { useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayChange } from "../api/access.ts";
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
import { poolSize } from "../pools/pool-size.ts";
import type { PageParams } from "../route.ts";
import { ObjectPage } from "../spec/object-page.tsx";
import { Connect } from "./connect.tsx";
import { claimFailure, poolFailure } from "./listing.ts";
import { networkWords } from "./network-words.ts";

type Workload = ApiTypes["Workload"];

export default function One({ params }: { params: PageParams }) {
  const { name = "" } = params;
  // Loaded early, since the questions name the users.
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
          <p>While it is in use, it stays Terminating and cannot be claimed. Saved files of tenants stay.</p>
        </>
      )}
      first={() => (
        <a class="button primary" href={`/dashboard/create/claim?workload=${name}`}>
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
            The workload can be claimed, but what uses it fails: <a href={failure.href}>{failure.what}</a>.
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
      {status.images !== undefined && <Images of={status.images} />}
      <Connect workload={name} />
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

/** Which nodes have pulled the image ahead. */
function Images({ of }: { of: NonNullable<Workload["status"]["images"]> }) {
  const { nodes, pulled, pulledOn, failed, message } = of;
  const others = pulled - pulledOn.length;
  return (
    <section aria-labelledby="images">
      <h2 id="images">Image on nodes</h2>
      {message !== undefined && <p class="is-warn">{message}</p>}
      {nodes > 0 && (
        <p>
          {pulled.toLocaleString()} of {nodes.toLocaleString()} nodes have it
          {pulledOn.length > 0 && `: ${pulledOn.join(", ")}`}
          {others > 0 && ` and ${others.toLocaleString()} more`}.
        </p>
      )}
      {failed.map(({ node, message }) => (
        <div key={node}>
          <span class="is-bad">{node} could not pull it</span>, and tries again: <Long of={message} />
        </div>
      ))}
    </section>
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
        <p class="muted">None: each claim starts its own pod.</p>
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
                  {status.ready} of {poolSize({ spec, status })}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {mayChange() && (
        <p>
          <a href={`/dashboard/create/pool?workload=${of}`}>Create pool</a>
        </p>
      )}
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
          ["Steps", steps !== undefined && `${steps}, ${cached ?? 0} of them cached`],
          ["Commit", commit !== undefined && <code>{commit}</code>],
          ["Digest", digest !== undefined && <code>{digest}</code>],
          ["Failed attempts", tries === undefined ? undefined : String(tries)],
        ]}
      />
      {reason !== undefined && (
        <div class="said">
          <b>{reason}</b> {message !== undefined && <Long of={message} />}
        </div>
      )}
      {mayChange() && (
        <div class="acts">
          <Act acts={acts} verb="Rebuild" act={() => rebuild(path, name)} />
          <button type="button" aria-expanded={isLogShown} onClick={() => setLogShown(!isLogShown)}>
            Build log
          </button>
        </div>
      )}
      {isLogShown && <Log path={`${path}/logs`} label={`Build log of ${name}`} />}
    </section>
  );
}

async function rebuild(path: string, name: string): Promise<string> {
  await call("POST", path);
  return `${name} is being rebuilt; the current image stays in use until then.`;
}

/** The claims and pools of a workload. */
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

const UNKNOWN = "Cannot show what uses it: the lists are still loading, or the connection is lost.";

/** The claims and pools of a workload; undefined while a list is not up to date. */
function useUsers(name: string): { claims: Kinds["claims"][]; pools: Kinds["pools"][] } | undefined {
  const [claims, pools] = [live("claims"), live("pools")];
  void (claims.version.value + pools.version.value);
  if (claims.state.value !== "live" || pools.state.value !== "live") return undefined;
  return {
    claims: [...claims.rows.values()].filter(({ workloadRef }) => workloadRef === name),
    pools: [...pools.rows.values()].filter(({ spec }) => spec.workloadRef === name),
  };
}

/** The first user that fails because of the workload. */
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

/** Effect of a change on running pods. */
function Rolls({ name }: { name: string }) {
  const users = useUsers(name);
  if (users === undefined) return <p>{UNKNOWN}</p>;
  const { pools } = users;
  const pods = pools.reduce((sum, { status }) => sum + status.ready + status.warming, 0);
  const claimed = users.claims.filter(({ instanceId }) => instanceId !== undefined).length;
  return (
    <p>
      {pools.length} {pools.length === 1 ? "pool rolls" : "pools roll"} to the new spec ({pods}{" "}
      {pods === 1 ? "pod" : "pods"}); {claimed} claimed {claimed === 1 ? "pod is not changed" : "pods are not changed"}.
    </p>
  );
}

function idleWords({
  timeoutSeconds,
  action = "hibernate",
  countBackgroundProcesses = false,
}: NonNullable<Workload["spec"]["idle"]> = {}): string {
  if (timeoutSeconds === undefined) return "never";
  const files = action === "destroy" ? "files are not saved" : "files are saved";
  const background = countBackgroundProcesses ? "; processes in the background count as use" : "";
  return `after ${durationWords(timeoutSeconds * 1000)}, ${files}${background}`;
}
