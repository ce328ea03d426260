import type { CountedPath } from "../audit/counted-path.ts";
import type { BenchReport } from "./bench-report.ts";
import { renderTable } from "./table.ts";

/** Shows a report to people. */
export function renderReport(report: BenchReport): string {
  const { commit, machine, kubernetes, rows, scale, requests } = report;
  const lines = [
    `\ncommit ${commit.slice(0, 12)}${commit.endsWith("+") ? "+" : ""}, Kubernetes ${kubernetes}, Node ${machine.node}, Bun ${machine.bun}`,
    `${machine.cores} cores (${machine.cpu}), ${machine.memoryGb} GB, load before ${machine.loadBefore.toFixed(2)}`,
    "",
    renderTable(rows),
  ];
  if (scale !== null) {
    lines.push(
      "",
      `scale: ${scale.pods} pods, ${scale.claims} claims: operator ${scale.rssMb.toFixed(0)} MiB (${scale.rssAfterRestartMb.toFixed(0)} MiB after a restart), ` +
        `restart to the answer of a waiting claim ${scale.restartMs.toFixed(0)} ms (${scale.restartCpuMs.toFixed(0)} ms of its CPU), ${scale.cpuMsPerReconcile.toFixed(2)} ms of CPU a reconcile`,
    );
  }
  const counted = Object.entries(requests);
  if (counted.length > 0) lines.push("", "requests to the API server a claim, from its audit log:");
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
