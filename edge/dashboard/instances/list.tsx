import { type Kinds, live } from "../api/kinds.ts";
import { Command, curlLine } from "../parts/command.tsx";
import { Phase } from "../parts/phase.tsx";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";

type Instance = Kinds["instances"];

const columns: readonly Column<Instance>[] = [
  { key: "name", title: "Name", text: ({ name }) => name, width: "minmax(0, 1.8fr)", phone: 1 },
  { key: "tenant", title: "Tenant", text: ({ tenantId }) => tenantId ?? "", choices: "address", phone: 2 },
  { key: "workload", title: "Workload", text: ({ workloadRef }) => workloadRef ?? "", choices: true },
  {
    ...{ key: "phase", title: "Phase", phone: 1, width: "minmax(0, 0.8fr)" },
    choices: ["Pending", "Running", "Succeeded", "Failed", "Unknown"],
    text: ({ phase }) => phase,
    cell: ({ phase }) => <Phase is={phase} />,
  },
  { key: "pool", title: "Pool", text: ({ labels }) => labels["tenancy.dev/pool"] ?? "", choices: true },
  {
    ...{ key: "use", title: "Use", choices: ["claimed", "ready", "warming"], width: "minmax(0, 0.7fr)" },
    text: ({ tenantId, labels }) => (tenantId === undefined ? (labels["tenancy.dev/pool-status"] ?? "") : "claimed"),
  },
  { key: "address", title: "Address", text: ({ ip }) => ip ?? "", width: "minmax(0, 0.8fr)" },
  {
    ...{ key: "used", title: "Last used", width: "minmax(0, 1.1fr)" },
    text: () => "",
    order: ({ lastActivity }) => lastActivity ?? "",
    cell: ({ lastActivity }) => <When at={lastActivity} />,
  },
  {
    ...{ key: "created", title: "Created", phone: 2, width: "minmax(0, 1.1fr)" },
    text: () => "",
    order: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => <When at={createdAt} />,
  },
];

export default function Instances() {
  return (
    <>
      <h1>Instances</h1>
      <Table
        label="Instances"
        live={live("instances")}
        columns={columns}
        open={({ name }) => `/dashboard/instances/${name}`}
        empty={
          <>
            <p>No pod runs: a claim starts one, and a pool keeps some ready.</p>
            <Command line={curlLine("/tenants/alice/claim", { workload: "hello" })} />
          </>
        }
      />
    </>
  );
}
