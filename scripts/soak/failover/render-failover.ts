import { DESCRIPTIONS } from "./options.ts";
import type { FailoverReport } from "./run-failover.ts";

/** A table of how long no claim was completed, and what must not have happened. */
export function renderFailover(report: FailoverReport): { text: string; isGood: boolean } {
  const rows = [...report.gaps].map(([fault, gaps]) => {
    const sorted = [...gaps].sort((a, b) => a - b);
    const [half, most] = [sorted[Math.floor(sorted.length / 2)] ?? 0, sorted.at(-1) ?? 0];
    return `| ${DESCRIPTIONS[fault]} | ${gaps.length} | ${seconds(half)} | ${seconds(most)} |`;
  });
  const { failures, doubled, lateWrites, orphans } = report;
  const bad = { failures, doubled, "late writes": lateWrites, orphans };
  const told = Object.entries(bad).map(([what, found]) => [`${what}: ${found.length}`, ...found].join("\n  "));
  const retries = [...report.retries].map(([seen, count]) => `${count} after ${seen}`).join(", ");
  const table = ["| what | times | p50 | longest |", "| --- | --- | --- | --- |", ...rows].join("\n");
  return {
    text: `${table}\n\n${report.claims} claims; calls made again: ${retries || "none"}\n${told.join("\n")}`,
    isGood: Object.values(bad).every((found) => found.length === 0),
  };
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`;
}
