import { useEffect } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { live } from "../api/kinds.ts";
import { useKey } from "../parts/keys.ts";
import { Problem } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { When } from "../parts/when.tsx";
import type { Column } from "../table/columns.tsx";
import { Table } from "../table/table.tsx";
import { followReleases, snapshotListing } from "./listing.ts";

type Snapshot = ApiTypes["Snapshot"];

const columns: readonly Column<Snapshot>[] = [
  { key: "tenant", title: "Tenant", text: ({ tenantId }) => tenantId, choices: "address", phone: 1 },
  { key: "workload", title: "Workload", text: ({ workloadRef }) => workloadRef, choices: true, phone: 2 },
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
    ...{ key: "state", title: "State", choices: ["can be restored", "cannot be restored"] },
    text: ({ sha256 }) => (sha256 === undefined ? "cannot be restored" : "can be restored"),
    cell: ({ sha256 }) =>
      sha256 === undefined ? (
        <span class="is-bad" title="What was recorded beside the archive is lost.">
          <span aria-hidden="true">▲</span> cannot be restored
        </span>
      ) : (
        "can be restored"
      ),
  },
  {
    ...{ key: "sha256", title: "SHA-256" },
    text: ({ sha256 }) => sha256?.slice(0, 12) ?? "",
    cell: ({ sha256 }) => <code title={sha256}>{sha256?.slice(0, 12)}</code>,
  },
];

export default function Snapshots() {
  const { read, isReading, error, again } = snapshotListing;
  useEffect(() => {
    again("the page was opened");
    return followReleases(live("claims"));
  }, []);
  useKey("r", "Read the snapshots again", () => again("you asked for it"));
  return (
    <>
      <div class="title">
        <h1>Snapshots</h1>
        <button type="button" disabled={isReading} onClick={() => again("you asked for it")}>
          {isReading ? "Reading…" : "Read again"}
        </button>
        {read !== undefined && (
          <p class="muted">
            Read <When at={new Date(read.at).toISOString()} />, because {read.because}. The volume is not watched.
          </p>
        )}
      </div>
      <Problem error={error} />
      <Table
        label="Snapshots"
        live={snapshotListing.live}
        columns={columns}
        open={({ tenantId, workloadRef }) => `/dashboard/snapshots/${tenantId}/${workloadRef}`}
        empty={
          <p>
            Nothing is saved. A release saves the folders that a workload lists in{" "}
            <code>spec.filesystem.overlayDirs</code>; a workload without any keeps no files.
          </p>
        }
      />
    </>
  );
}
