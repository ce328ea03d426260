import { mayChange } from "../api/access.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { Command, curlLine } from "../parts/command.tsx";
import { stateColumns } from "../parts/state.tsx";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";
import { limitWords, poolSize } from "./pool-size.ts";

type Pool = Kinds["pools"];

const columns: readonly Column<Pool>[] = [
  { key: "name", title: "Name", text: ({ name }) => name, phone: 1 },
  {
    ...{ key: "workload", title: "Workload", choices: true },
    text: ({ spec }) => spec.workloadRef,
    cell: ({ spec }) => (
      <a href={`/dashboard/workloads/${spec.workloadRef}`} tabIndex={-1}>
        {spec.workloadRef}
      </a>
    ),
  },
  ...stateColumns<Pool>(({ status: { phase, reason } }) => ({ phase, reason }), {
    phases: ["Filling", "Ready", "Degraded", "Error"],
  }),
  { key: "reason", title: "Reason", text: ({ status }) => status.reason ?? "", choices: true },
  {
    ...{ key: "ready", title: "Ready", phone: 2, width: "minmax(0, 1.4fr)" },
    text: (pool) => `${pool.status.ready} of ${poolSize(pool)}`,
    order: (pool) => pool.status.ready / Math.max(1, poolSize(pool)),
    cell: (pool) => <Depth ready={pool.status.ready} size={poolSize(pool)} limits={limitWords(pool)} />,
  },
  {
    ...{ key: "warming", title: "Starting", isNumber: true, width: "minmax(0, 0.6fr)" },
    text: ({ status }) => String(status.warming),
    order: ({ status }) => status.warming,
  },
  {
    ...{ key: "created", title: "Created", phone: 2, width: "minmax(0, 1.1fr)" },
    text: () => "",
    order: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => <When at={createdAt} />,
  },
];

export default function Pools() {
  return (
    <>
      <div class="title">
        <h1>Pools</h1>
        {mayChange() && (
          <a class="button" href="/dashboard/create/pool">
            Create pool
          </a>
        )}
      </div>
      <Table
        label="Pools"
        live={live("pools")}
        columns={columns}
        open={({ name }) => `/dashboard/pools/${name}`}
        empty={
          <>
            <p>No pools, so every claim starts its own pod. To keep two warm pods of the workload hello:</p>
            <Command line={curlLine("/pools", { name: "hello", spec: { workloadRef: "hello", size: 2 } })} />
          </>
        }
      />
    </>
  );
}

function Depth({ ready, size, limits }: { ready: number; size: number; limits: string | undefined }) {
  return (
    <span class="depth" title={limits && `The operator chooses ${limits}`}>
      {ready} of {size}
      <svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
        <rect class="segment is-ok" width={size === 0 ? 0 : Math.min(100, (100 * ready) / size)} height={1} />
      </svg>
    </span>
  );
}
