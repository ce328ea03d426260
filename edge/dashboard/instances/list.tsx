import { type Kinds, live } from "../api/kinds.ts";
import { Command, curlLine } from "../parts/command.tsx";
import { instanceHref } from "../parts/hrefs.ts";
import { stateColumns } from "../parts/state.tsx";
import { StateCounts } from "../parts/state-counts.tsx";
import { tenantHref } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";

type Instance = Kinds["instances"];

const asIs = (instance: Instance): Instance => instance;

const columns: readonly Column<Instance>[] = [
  { key: "name", title: "Name", text: ({ name }) => name, width: "minmax(0, 1.8fr)", phone: 1 },
  {
    ...{ key: "tenant", title: "Tenant", choices: "address", phone: 2 },
    text: ({ tenantId }) => tenantId ?? "",
    href: ({ tenantId }) => tenantId && tenantHref(tenantId),
  },
  { key: "workload", title: "Workload", text: ({ workloadRef }) => workloadRef ?? "", choices: true },
  ...stateColumns<Instance>(asIs, {
    phases: ["Pending", "Running", "Succeeded", "Failed", "Unknown"],
  }),
  { key: "reason", title: "Reason", text: reasonWords, width: "minmax(0, 1.4fr)" },
  { key: "pool", title: "Pool", text: ({ labels }) => labels["tenancy.dev/pool"] ?? "", choices: true },
  {
    ...{ key: "use", title: "Use", choices: ["claimed", "ready", "warming"], width: "minmax(0, 0.7fr)" },
    text: ({ tenantId, labels }) => (tenantId === undefined ? (labels["tenancy.dev/pool-status"] ?? "") : "claimed"),
  },
  { key: "address", title: "Address", text: ({ ip }) => ip ?? "", width: "minmax(0, 0.8fr)" },
  {
    ...{ key: "used", title: "Last activity", width: "minmax(0, 1.1fr)" },
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

/** Such as `CrashLoopBackOff, 5 restarts`. */
function reasonWords({ reason, restarts }: Instance): string {
  const counted = restarts === 0 ? undefined : restarts === 1 ? "1 restart" : `${restarts} restarts`;
  return [reason, counted].filter(Boolean).join(", ");
}

export default function Instances() {
  return (
    <>
      <div class="title">
        <h1>Instances</h1>
        <StateCounts live={live("instances")} known={asIs} />
      </div>
      <Table
        label="Instances"
        live={live("instances")}
        columns={columns}
        orderedBy="state"
        open={({ name }) => instanceHref(name)}
        empty={
          <>
            <p>No instances. A claim starts one, and a pool keeps some ready.</p>
            <Command line={curlLine("/tenants/alice/claim", { workload: "hello" })} />
          </>
        }
      />
    </>
  );
}
