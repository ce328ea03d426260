import type { CountedPath } from "../audit-log.ts";
import type { CrowdSize } from "../fixtures/crowd.ts";
import type { BenchReport, ScaleResult, ScaleSize } from "./bench-report.ts";
import type { Row } from "./summarise.ts";

interface Column {
  readonly title: string;
  cell(row: Row): string;
}

const columns: readonly Column[] = [
  { title: "path", cell: ({ path }) => path },
  { title: "n", cell: ({ n }) => String(n) },
  { title: "failed", cell: ({ failed }) => String(failed) },
  { title: "missed", cell: ({ missed }) => String(missed) },
  { title: "p50 ms", cell: (row) => milliseconds(row, row.p50Ms) },
  { title: "p95", cell: (row) => milliseconds(row, row.p95Ms) },
  { title: "p99", cell: (row) => milliseconds(row, row.p99Ms) },
  { title: "max", cell: (row) => milliseconds(row, row.maxMs) },
  { title: "floor p50", cell: ({ floorP50Ms }) => figure(floorP50Ms) },
  { title: "x floor", cell: ({ ratioP50 }) => figure(ratioP50) },
  { title: "writes", cell: ({ writesPerClaim }) => figure(writesPerClaim) },
  { title: "reads", cell: ({ readsPerClaim }) => figure(readsPerClaim) },
  { title: "with refill", cell: ({ writesWithRefill = null }) => figure(writesWithRefill) },
  { title: "watch events", cell: ({ server }) => figure(server?.watchEvents ?? null) },
  { title: "watch KiB", cell: ({ server }) => figure(server?.watchKb ?? null) },
  { title: "per s", cell: ({ perSecond }) => figure(perSecond) },
  {
    title: "others' CPU",
    cell: ({ othersCpuShare: share }) => (share === null ? "-" : `${Math.round(share * 100)} %`),
  },
];

/** Renders rows as a table for people, with names on the left, figures on the right, and errors below. */
export function renderTable(rows: readonly Row[]): string {
  const used = columns.filter(({ cell, title }) => title === "path" || rows.some((row) => cell(row) !== "-"));
  const lines = [used.map(({ title }) => title), ...rows.map((row) => used.map(({ cell }) => cell(row)))];
  return [...alignColumns(lines), ...rows.flatMap(remarks)].join("\n");
}

/**
 * Pads cells so that columns are equally wide: text in the first one to the left, figures in the others to the right.
 */
export function alignColumns(lines: readonly (readonly string[])[]): string[] {
  const widths = (lines[0] ?? []).map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((cell, index) => (index === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[index] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

/** Our own programs, whose memory is of interest. */
export const OURS = ["operator", "edge"];

/** Renders the usage: CPU time per claim for paths without pauses, and our programs' memory afterwards. */
export function renderUsage(rows: readonly Row[]): string {
  const used = rows.filter(({ rssMb }) => rssMb !== undefined);
  const programs = [...new Set(used.flatMap(({ cpuMsPerClaim = {} }) => Object.keys(cpuMsPerClaim)))];
  const line = ({ path, cpuMsPerClaim: cpu, rssMb = {} }: Row) => {
    const all = cpu && Object.values(cpu).reduce((sum, ms) => sum + ms, 0);
    const figures = [...programs.map((name) => cpu?.[name]), all, ...OURS.map((name) => rssMb[name])];
    return [path, ...figures.map((one) => figure(one ?? null))];
  };
  const titles = ["CPU ms a claim", ...programs, "all", ...OURS.map((name) => `${name} MiB`)];
  return alignColumns([titles, ...used.map(line)]).join("\n");
}

/** Renders a line per figure and a column per size. */
export function renderScale({ sizes }: ScaleResult): string {
  const row = (title: string, cell: (size: ScaleSize) => string) => [title, ...sizes.map(cell)];
  const kinds = Object.keys(sizes[0]?.standing ?? {}) as (keyof CrowdSize)[];
  const names = [...new Set(sizes.flatMap(({ figures }) => Object.keys(figures)))];
  return alignColumns([
    ...kinds.map((kind) => row(kind, ({ standing }) => String(standing[kind]))),
    ...names.map((name) => row(name, ({ figures }) => figure(figures[name] ?? null))),
    row("operator: restart ms", ({ restartSamplesMs }) => figure(Math.max(...restartSamplesMs))),
  ]).join("\n");
}

function remarks({ path, error, note, failures }: Row): string[] {
  return [
    ...(error === undefined ? [] : [`${path}: FAILED: ${error}`]),
    ...Object.entries(failures ?? {}).map(([reason, count]) => `${path}: ${count} x ${reason}`),
    ...(note === undefined ? [] : [`${path}: ${note}`]),
  ];
}

/** If there were claims, a missing percentile lies among the failed ones. */
function milliseconds({ n }: Row, value: number | null): string {
  return value === null && n > 0 ? "failed" : figure(value);
}

/** Three significant digits; a dash if there is no figure. */
export function figure(value: number | null): string {
  if (value === null) return "-";
  if (value === 0) return "0";
  return value.toFixed(Math.max(0, Math.min(3, 2 - Math.floor(Math.log10(Math.abs(value))))));
}

/** Shows a report to people. */
export function renderReport(report: BenchReport): string {
  const { commit, machine, kubernetes, rows, scale, requests } = report;
  const lines = [
    `\ncommit ${commit.slice(0, 12)}${commit.endsWith("+") ? "+" : ""}, Kubernetes ${kubernetes}, Node ${machine.node}, Bun ${machine.bun}`,
    `${machine.cores} cores (${machine.cpu}), ${machine.memoryGb} GB, load before ${machine.loadBefore.toFixed(2)}`,
    "",
    renderTable(rows),
    ...(rows.some(({ rssMb }) => rssMb !== undefined) ? ["", renderUsage(rows)] : []),
  ];
  if (scale !== null) lines.push("", renderScale(scale));
  const loaded = rows.filter(({ server }) => server !== undefined);
  if (loaded.length > 0)
    lines.push("", "writes a claim, refill, scheduler and kubelet and all, from the API server's metrics:");
  for (const { path, server } of loaded) {
    const writes = Object.entries(server?.writes ?? {}).map(([name, count]) => `${count.toFixed(2)} ${name}`);
    lines.push(`  ${path}: ${writes.join(", ")}`);
  }
  const counted = Object.entries(requests);
  if (counted.length > 0)
    lines.push("", "requests of operator and edge a claim when idle, from the API server's audit log:");
  for (const [path, requested] of counted) lines.push(...renderRequests(path, requested));
  return lines.join("\n");
}

function renderRequests(path: string, { claims, requests }: CountedPath): string[] {
  if (requests.length === 0) return [`  ${path}: none`];
  return requests.map(({ client, verb, resource, refill, count }) => {
    const perClaim = (count / claims).toFixed(2);
    return `  ${path}: ${perClaim} ${verb} ${resource} by the ${client}${refill ? " (refill)" : ""}`;
  });
}
