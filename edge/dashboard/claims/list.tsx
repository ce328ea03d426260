import { type Kinds, live } from "../api/kinds.ts";
import { Phase } from "../parts/phase.tsx";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";

type Claim = Kinds["claims"];

const columns: readonly Column<Claim>[] = [
  { key: "tenant", title: "Tenant", text: (claim) => claim.tenantId, width: "minmax(0, 1.2fr)", phone: 1 },
  { key: "workload", title: "Workload", text: (claim) => claim.workloadRef, choices: true, phone: 2 },
  {
    ...{ key: "phase", title: "Phase", choices: true, phone: 1, width: "minmax(0, 0.8fr)" },
    text: (claim: Claim) => claim.phase,
    cell: (claim: Claim) => <Phase is={claim.phase} />,
  },
  { key: "source", title: "Source", text: (claim) => claim.source ?? "", choices: true, width: "minmax(0, 0.7fr)" },
  { key: "instance", title: "Instance", text: (claim) => claim.instanceId ?? "", width: "minmax(0, 1.6fr)" },
  {
    ...{ key: "since", title: "Claimed", phone: 2 },
    text: (claim: Claim) => claim.claimedAt ?? "",
    cell: (claim: Claim) => <When at={claim.claimedAt} />,
  },
  { key: "reason", title: "Reason", text: (claim) => claim.reason ?? "", choices: true },
];

export default function Claims() {
  return (
    <>
      <h1>Claims</h1>
      <Table
        label="Claims"
        live={live("claims")}
        columns={columns}
        open={({ tenantId, workloadRef }) => `/dashboard/claims/${tenantId}/${workloadRef}`}
      />
    </>
  );
}
