import { type Kind, kindNames } from "./find-test-files.ts";
import type { TestRun } from "./run-test-file.ts";

const SLOWEST = 10;

/** Reports in a few lines how the time of a test run was spent. */
export function timeReport(runs: readonly TestRun[]): string {
  const slowest = runs.toSorted((a, b) => b.seconds - a.seconds).slice(0, SLOWEST);
  return [
    "where the time went, added up over files that ran beside each other:",
    ...kindNames.flatMap((kind) => timeOfKind(kind, runs)),
    `the slowest ${slowest.length}:`,
    ...slowest.map(({ label, seconds }) => `  ${seconds.toFixed(1).padStart(6)} s ${label}`),
  ].join("\n");
}

function timeOfKind(kind: Kind, all: readonly TestRun[]): string[] {
  const runs = all.filter((run) => run.kind === kind);
  if (runs.length === 0) return [];
  const starts = runs.flatMap(({ startSeconds }) => startSeconds);
  const starting = `, of which ${sum(starts)} s for ${starts.length} starts of a control plane or cluster`;
  return [
    `  ${kind}: ${sum(runs.map(({ seconds }) => seconds))} s in ${runs.length} runs${starts.length > 0 ? starting : ""}`,
  ];
}

function sum(figures: readonly number[]): string {
  return figures.reduce((total, figure) => total + figure, 0).toFixed(0);
}
