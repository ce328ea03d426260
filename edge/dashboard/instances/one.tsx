import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct, seesService } from "../api/access.ts";
import { call } from "../api/call.ts";
import { live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { destroy } from "../claims/acts.tsx";
import { InstanceHead } from "../claims/tabs.tsx";
import { Act, Outcome, useActs } from "../parts/acts.tsx";
import { Events } from "../parts/events.tsx";
import { Facts } from "../parts/facts.tsx";
import { Problem } from "../parts/problem.tsx";
import { State } from "../parts/state.tsx";
import { TenantLink } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import { WorkloadLink } from "../parts/workload-link.tsx";
import type { PageParams } from "../route.ts";
import { Exec } from "./exec.tsx";
import { Logs } from "./logs.tsx";

type InstanceDetail = ApiTypes["InstanceDetail"];

export default function Instance({ params }: { params: PageParams }) {
  const { name = "" } = params;
  const instances = live("instances");
  instances.version.value;
  const row = instances.rows.get(name);
  const path = `/instances/${encodeURIComponent(name)}`;
  const detail = useLoad(row && path, (signal) => call<InstanceDetail>("GET", `${path}?detail=true`, { signal }), row);
  const acts = useActs();
  return (
    <>
      <InstanceHead of={name} current="pod" />
      {row === undefined && (
        <p class="muted">{instances.state.value === "loading" ? "Loading…" : "This instance no longer exists."}</p>
      )}
      {row !== undefined && mayAct() && (
        <div class="acts">
          <Act acts={acts} verb="Destroy" keys="x" class="danger" act={() => destroy(row)} />
        </div>
      )}
      <Outcome acts={acts} />
      {row !== undefined && <Known row={row} />}
      {row !== undefined && mayAct() && <Logs name={name} />}
      {row?.tenantId !== undefined && mayAct() && <Exec key={name} instance={name} />}
      {/* What is read later comes last, and pushes nothing down. */}
      <Problem error={detail.error} />
      {detail.value?.containers !== undefined && (
        <Containers of={detail.value.containers} node={detail.value.node ?? undefined} />
      )}
      {detail.value !== undefined && <Events of={detail.value} />}
    </>
  );
}

function Known({ row }: { row: ApiTypes["Instance"] }) {
  const { reason, restarts, tenantId, workloadRef, ip, createdAt, claimedAt, lastActivity, labels } = row;
  const pool = labels["tenancy.dev/pool"];
  return (
    <Facts
      of={[
        ["State", <State key="state" of={row} />],
        ["Reason", reason],
        ["Restarts", restarts > 0 && String(restarts)],
        ["Tenant", tenantId !== undefined && <TenantLink of={tenantId} />],
        ["Workload", workloadRef !== undefined && <WorkloadLink of={workloadRef} />],
        ["Pool", pool !== undefined && (seesService() ? <a href={`/dashboard/pools/${pool}`}>{pool}</a> : pool)],
        ["Address", ip !== undefined && <code>{ip}</code>],
        ["Created", <When key="created" at={createdAt} />],
        ["Claimed", claimedAt !== undefined && <When at={claimedAt} />],
        ["Last activity", lastActivity !== undefined && <When at={lastActivity} />],
      ]}
    />
  );
}

function Containers({ of, node }: { of: NonNullable<InstanceDetail["containers"]>; node: string | undefined }) {
  return (
    <section aria-labelledby="containers">
      <h2 id="containers">Containers{node !== undefined && <small class="muted"> on node {node}</small>}</h2>
      <table aria-labelledby="containers" class="stack">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Restarts
            </th>
            <th scope="col">Requests</th>
            <th scope="col">Limits</th>
            <th scope="col">Image</th>
          </tr>
        </thead>
        <tbody>
          {of.map(({ name, state, reason, message, ready, restarts, requests, limits, image }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td title={message}>
                {state}
                {reason !== undefined && `, ${reason}`}
                {ready && ", ready"}
              </td>
              <td class="number" data-label="restarts">
                {restarts}
              </td>
              <td data-label="requests">{amounts(requests)}</td>
              <td data-label="limits">{amounts(limits)}</td>
              <td>
                <code>{image}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function amounts(of: Readonly<Record<string, string>> = {}): string {
  return Object.entries(of)
    .map(([name, amount]) => `${name} ${amount}`)
    .join(", ");
}
