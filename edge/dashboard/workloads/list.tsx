import { useMemo } from "preact/hooks";
import { mayChange } from "../api/access.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { Command } from "../parts/command.tsx";
import { stateColumns } from "../parts/state.tsx";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";
import { reasonOf, type WorkloadRow, workloadListing } from "./listing.ts";

type Workload = Kinds["workloads"];

const columns: readonly Column<WorkloadRow>[] = [
  { key: "name", title: "Name", text: ({ name }) => name, phone: 1 },
  ...stateColumns<WorkloadRow>((row) => ({ phase: row.status.phase, reason: reasonOf(row) }), {
    phases: ["Creating", "Building", "Ready", "Error", "Terminating"],
  }),
  { key: "reason", title: "Reason", text: (row) => reasonOf(row) ?? "", choices: true },
  { key: "image", title: "Image", text: imageOf, width: "minmax(0, 2fr)", phone: 2 },
  {
    ...{ key: "network", title: "Network", choices: true, width: "minmax(0, 0.8fr)" },
    text: ({ spec }) => spec.network?.access ?? "none",
  },
  {
    ...{ key: "memory", title: "Memory", isNumber: true, width: "minmax(0, 0.7fr)" },
    text: ({ spec }) => `${memoryOf(spec)} MB`,
    order: ({ spec }) => memoryOf(spec),
  },
  {
    ...{ key: "files", title: "Files", choices: ["saved", "not kept"], width: "minmax(0, 0.7fr)" },
    text: ({ spec }) => ((spec.filesystem?.overlayDirs?.length ?? 0) > 0 ? "saved" : "not kept"),
  },
  {
    ...{ key: "idle", title: "Released when idle", width: "minmax(0, 0.8fr)" },
    text: ({ spec }) => idleOf(spec),
    order: ({ spec }) => spec.idle?.timeoutSeconds ?? Number.POSITIVE_INFINITY,
  },
  {
    ...{ key: "created", title: "Created", phone: 2, width: "minmax(0, 1.1fr)" },
    text: () => "",
    order: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => <When at={createdAt} />,
  },
];

export default function Workloads() {
  const listing = useMemo(
    () => workloadListing({ workloads: live("workloads"), claims: live("claims"), pools: live("pools") }),
    [],
  );
  return (
    <>
      <div class="title">
        <h1>Workloads</h1>
        {mayChange() && (
          <a class="button" href="/dashboard/create/workload">
            Create workload
          </a>
        )}
      </div>
      <Table
        label="Workloads"
        live={listing}
        columns={columns}
        open={({ name }) => `/dashboard/workloads/${name}`}
        empty={
          <>
            <p>No workloads. A workload describes the container that a tenant gets.</p>
            {mayChange() && (
              <p>
                <a href="/dashboard/create/workload">Begin with a template</a>, or create the example:
              </p>
            )}
            <Command line="kubectl apply -f manifests/examples/hello-workload.yaml" />
          </>
        }
      />
    </>
  );
}

function imageOf({ spec, status }: Workload): string {
  return spec.image.ref ?? status.image ?? `built from ${spec.image.dockerfile}`;
}

function memoryOf({ resources }: Workload["spec"]): number {
  return resources?.memoryMb ?? 512;
}

function idleOf({ idle }: Workload["spec"]): string {
  const seconds = idle?.timeoutSeconds;
  if (seconds === undefined) return "never";
  return seconds % 60 === 0 ? `after ${seconds / 60} min` : `after ${seconds} s`;
}
