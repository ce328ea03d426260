import { mayAct } from "../api/access.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { Command, curlLine } from "../parts/command.tsx";
import { claimHref, instanceHref } from "../parts/hrefs.ts";
import { stateColumns } from "../parts/state.tsx";
import { StateCounts } from "../parts/state-counts.tsx";
import { tenantHref } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";
import { knownOf } from "./known-of.ts";

type Claim = Kinds["claims"];

const columns: readonly Column<Claim>[] = [
  {
    ...{ key: "tenant", title: "Tenant", choices: "address", width: "minmax(0, 1.2fr)", phone: 1 },
    text: (claim) => claim.tenantId,
    href: ({ tenantId }) => tenantHref(tenantId),
  },
  {
    ...{ key: "workload", title: "Workload", choices: true, phone: 2 },
    text: (claim) => claim.workloadRef,
    href: claimHref,
  },
  ...stateColumns<Claim>(knownOf, {
    phases: ["Pending", "Active", "Releasing", "Released", "ReleaseFailed", "Error"],
  }),
  { key: "reason", title: "Reason", text: (claim) => claim.reason ?? "", choices: true },
  { key: "source", title: "Source", text: (claim) => claim.source ?? "", choices: true, width: "minmax(0, 0.7fr)" },
  {
    ...{ key: "instance", title: "Instance", width: "minmax(0, 1.6fr)" },
    text: (claim) => claim.instanceId ?? "",
    href: ({ instanceId }) => instanceId && instanceHref(instanceId),
  },
  {
    ...{ key: "address", title: "Address" },
    text: ({ endpoint }) => (endpoint === undefined ? "" : `${endpoint.host}:${endpoint.port}`),
  },
  {
    ...{ key: "since", title: "Claimed", phone: 2, width: "minmax(0, 1.1fr)" },
    text: () => "",
    order: ({ claimedAt }) => claimedAt ?? "",
    cell: ({ claimedAt }) => <When at={claimedAt} />,
  },
];

export default function Claims() {
  return (
    <>
      <div class="title">
        <h1>Claims</h1>
        {mayAct() && (
          <a class="button primary" href="/dashboard/create/claim">
            Claim
          </a>
        )}
        <StateCounts live={live("claims")} known={knownOf} />
      </div>
      <Table
        label="Claims"
        live={live("claims")}
        columns={columns}
        orderedBy="state"
        open={claimHref}
        empty={
          <>
            <p>No claims yet. To claim the workload hello for the tenant alice:</p>
            <Command line={curlLine("/tenants/alice/claim", { workload: "hello" })} />
          </>
        }
      />
    </>
  );
}
