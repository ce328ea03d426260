import { useEffect, useMemo } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import { live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { savedHref } from "../parts/hrefs.ts";
import { useKey } from "../parts/keys.ts";
import { Problem } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { tenantHref } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";
import { followReleases, type SnapshotRow, snapshotListing } from "./listing.ts";

type Limits = NonNullable<ApiTypes["Stats"]["snapshotLimits"]>;

const columnsWith = ({ tenantBytes, workloadBytes }: Limits): readonly Column<SnapshotRow>[] => [
  {
    ...{ key: "tenant", title: "Tenant", choices: "address", phone: 1 },
    text: ({ tenantId }) => tenantId,
    href: ({ tenantId }) => tenantHref(tenantId),
  },
  {
    ...{ key: "workload", title: "Workload", choices: true, phone: 2 },
    text: ({ workloadRef }) => workloadRef,
    href: savedHref,
  },
  {
    ...{ key: "size", title: "Size", isNumber: true, width: "minmax(0, 0.5fr)", phone: 1 },
    text: ({ sizeBytes }) => sizeWords(sizeBytes),
    order: ({ sizeBytes }) => sizeBytes,
  },
  {
    ...{ key: "saved", title: "Saved", phone: 2 },
    text: () => "",
    order: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => <When at={createdAt} />,
  },
  {
    ...{ key: "takes", title: "All versions", isNumber: true },
    text: ({ versions, takes }) => `${sizeWords(takes.own)}${versions === 1 ? "" : ` in ${versions}`}`,
    order: ({ takes }) => takes.own,
  },
  {
    ...{ key: "tenant-takes", title: "Tenant's total", isNumber: true },
    text: ({ takes }) => ofLimit(takes.tenant, tenantBytes),
    order: ({ takes }) => takes.tenant,
  },
  {
    ...{ key: "workload-takes", title: "Workload's total", isNumber: true },
    text: ({ takes }) => ofLimit(takes.workload, workloadBytes),
    order: ({ takes }) => takes.workload,
  },
  {
    ...{ key: "state", title: "State", choices: ["can be restored", "cannot be restored", "older versions only"] },
    text: stateOf,
    cell: (row) =>
      stateOf(row) === "cannot be restored" ? (
        <span class="is-bad" title="The metadata of the archive is lost.">
          <span aria-hidden="true">▲</span> cannot be restored
        </span>
      ) : (
        stateOf(row)
      ),
  },
  {
    ...{ key: "sha256", title: "SHA-256" },
    text: ({ sha256 }) => sha256?.slice(0, 12) ?? "",
    cell: ({ sha256 }) => <code title={sha256}>{sha256?.slice(0, 12)}</code>,
  },
];

function stateOf({ version, sha256 }: SnapshotRow): string {
  if (sha256 === undefined) return "cannot be restored";
  return version === undefined ? "can be restored" : "older versions only";
}

function ofLimit(bytes: number, limit: number | undefined): string {
  return limit === undefined ? sizeWords(bytes) : `${sizeWords(bytes)} of ${sizeWords(limit)}`;
}

export default function Snapshots() {
  const { read, isPart, isReading, error, again } = snapshotListing;
  const stats = useLoad("stats", (signal) => call<ApiTypes["Stats"]>("GET", "/stats", { signal }), read?.at);
  const limits = stats.value?.snapshotLimits;
  const columns = useMemo(() => columnsWith(limits ?? {}), [limits]);
  useEffect(() => {
    again("the page was opened");
    return followReleases(live("claims"));
  }, []);
  useKey("r", "Reload snapshots", () => again("you asked for it"));
  return (
    <>
      <div class="title">
        <h1>Snapshots</h1>
        <button type="button" disabled={isReading} onClick={() => again("you asked for it")}>
          {isReading ? "Loading…" : "Reload"}
        </button>
        <p class="muted watched">
          {read !== undefined && (
            <>
              Read <When at={new Date(read.at).toISOString()} />, because {read.because}. This list does not refresh
              itself.
            </>
          )}
        </p>
      </div>
      {isPart && (
        <p>Not all snapshots are shown: only the first ones by tenant. The totals of workloads count only these.</p>
      )}
      <Problem error={error ?? stats.error} />
      <Table
        label="Snapshots"
        live={snapshotListing.live}
        columns={columns}
        open={savedHref}
        empty={
          <p>
            No snapshots yet. A release saves the folders that a workload lists in{" "}
            <code>spec.filesystem.overlayDirs</code>; a workload without such folders saves no files.
          </p>
        }
      />
    </>
  );
}
