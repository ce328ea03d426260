import { mayChange } from "../api/access.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { Command, curlLine } from "../parts/command.tsx";
import { stateColumns } from "../parts/state.tsx";
import { tenantHref } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";

type Trigger = Kinds["triggers"];

const columns: readonly Column<Trigger>[] = [
  { key: "name", title: "Name", text: ({ name }) => name, phone: 1 },
  {
    ...{ key: "type", title: "Type", choices: ["webhook", "messenger", "cron"], width: "minmax(0, 0.7fr)" },
    text: ({ spec }) => spec.type,
  },
  ...stateColumns<Trigger>((trigger) => ({ phase: phaseOf(trigger) }), {
    phases: ["Active", "Error", "Pending"],
  }),
  { key: "source", title: "Event source", text: sourceOf, width: "minmax(0, 1.4fr)", phone: 2 },
  {
    ...{ key: "workload", title: "Workload", choices: true },
    text: ({ spec }) => spec.workloadRef,
    cell: ({ spec }) => (
      <a href={`/dashboard/workloads/${spec.workloadRef}`} tabIndex={-1}>
        {spec.workloadRef}
      </a>
    ),
  },
  {
    ...{ key: "tenant", title: "Tenant" },
    text: tenantOf,
    href: ({ spec: { tenant } }) => tenant.static && tenantHref(tenant.static),
  },
  { key: "detail", title: "Detail", text: ({ status }) => status.detail ?? "", width: "minmax(0, 1.6fr)" },
  {
    ...{ key: "created", title: "Created", phone: 2, width: "minmax(0, 1.1fr)" },
    text: () => "",
    order: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => <When at={createdAt} />,
  },
];

export default function Triggers() {
  return (
    <>
      <div class="title">
        <h1>Triggers</h1>
        {mayChange() && (
          <a class="button" href="/dashboard/create/trigger">
            Create trigger
          </a>
        )}
      </div>
      <Table
        label="Triggers"
        live={live("triggers")}
        columns={columns}
        open={({ name }) => `/dashboard/triggers/${name}`}
        empty={
          <>
            <p>No triggers. To call a tenant's pod every night at three:</p>
            <Command line={curlLine("/triggers", nightly)} />
          </>
        }
      />
    </>
  );
}

const nightly = {
  name: "nightly",
  spec: { type: "cron", workloadRef: "hello", tenant: { static: "alice" }, config: { schedule: "0 3 * * *" } },
};

/** A trigger has no phase until the gateway has reconciled it. */
function phaseOf({ status }: Trigger): string {
  return status.phase ?? "Pending";
}

function sourceOf({ spec: { type, config } }: Trigger): string {
  if (type === "webhook") return config.path ?? "";
  return type === "cron" ? [config.schedule, config.timezone].filter(Boolean).join(" ") : "a chat";
}

function tenantOf({ spec: { tenant } }: Trigger): string {
  return tenant.static ?? `${tenant.prefix ?? ""}{${tenant.from}}`;
}
