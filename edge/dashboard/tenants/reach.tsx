import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayGiveKeys, reaches, seesService } from "../api/access.ts";
import { call } from "../api/call.ts";
import { live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { session } from "../api/session.ts";
import { Reading, Unread } from "../parts/problem.tsx";
import { State } from "../parts/state.tsx";
import { When } from "../parts/when.tsx";
import { WorkloadLink } from "../parts/workload-link.tsx";
import { claimsFor } from "./triggers-of.ts";

/** The triggers that claim for a tenant. */
export function Triggers({ of: tenantId }: { of: string }) {
  return (
    <section aria-labelledby="triggers">
      <h2 id="triggers">Triggers</h2>
      {seesService() ? <TriggerList of={tenantId} /> : <p class="muted">Your login may not read triggers.</p>}
    </section>
  );
}

function TriggerList({ of: tenantId }: { of: string }) {
  const { rows, version, state } = live("triggers");
  version.value;
  const found = [...rows.values()].flatMap((trigger) => {
    const when = claimsFor(trigger.spec, tenantId);
    return when === undefined ? [] : [{ ...trigger, when }];
  });
  if (state.value === "loading") return <p class="muted">Loading…</p>;
  if (found.length === 0) return <p class="muted">No trigger claims for it.</p>;
  return (
    <table class="stack" aria-labelledby="triggers">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">State</th>
          <th scope="col">Workload</th>
          <th scope="col">Claims for it</th>
        </tr>
      </thead>
      <tbody>
        {found.map(({ name, spec: { workloadRef }, status, when }) => (
          <tr key={name}>
            <th scope="row">
              <a href={`/dashboard/triggers/${name}`}>{name}</a>
            </th>
            <td>
              <State of={{ phase: status.phase ?? "Pending" }} />
            </td>
            <td>
              <WorkloadLink of={workloadRef} />
            </td>
            <td>{when}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The keys that reach a tenant. */
export function Keys({ of: tenantId }: { of: string }) {
  return (
    <section aria-labelledby="keys">
      <h2 id="keys">Keys</h2>
      {!mayGiveKeys() ? (
        <p class="muted">Only the role admin may read keys.</p>
      ) : session.value?.asksForKey === true ? (
        <KeyList of={tenantId} />
      ) : (
        <p class="muted">This server asks for no key.</p>
      )}
    </section>
  );
}

function KeyList({ of: tenantId }: { of: string }) {
  const { value, error } = useLoad("keys", (signal) => call<ApiTypes["Key"][]>("GET", "/keys", { signal }));
  const found = value?.filter(({ tenants }) => tenants === undefined || reaches(tenants, tenantId));
  return (
    <>
      <Unread error={error} />
      <Reading of={{ value, error }} />
      {found?.length === 0 && <p class="muted">No key reaches it but TENANCY_API_KEY.</p>}
      {found !== undefined && found.length > 0 && (
        <table class="stack" aria-labelledby="keys">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Role</th>
              <th scope="col">Tenants</th>
              <th scope="col">Workloads</th>
              <th scope="col">Expires</th>
            </tr>
          </thead>
          <tbody>
            {found.map(({ id, name, role, tenants, workloads, expiresAt }) => (
              <tr key={id}>
                <th scope="row" title={id}>
                  {name}
                </th>
                <td>{role}</td>
                <td data-label="tenants">{tenants?.join(", ") ?? "all"}</td>
                <td data-label="workloads">{workloads?.join(", ") ?? "all"}</td>
                <td data-label="expires">{expiresAt === undefined ? "never" : <When at={expiresAt} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {found !== undefined && <a href="/dashboard/keys">All keys</a>}
    </>
  );
}
