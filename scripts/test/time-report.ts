import type { Kind } from "./options.ts";
import type { TestRun } from "./run-test-file.ts";

const SLOWEST = 10;

export interface KindTime {
  kind: Kind;
  /** From the start of its first file to the end of its last one. */
  seconds: number;
  runs: readonly TestRun[];
}

/** Says in a few lines where the time of a test run went. */
export function timeReport(kinds: readonly KindTime[]): string {
  const rows = kinds.map(({ kind, seconds, runs }) => {
    const starts = runs.flatMap(({ startSeconds }) => startSeconds);
    const starting =
      starts.length === 0 ? "" : `; ${starts.length} starts of a control plane or cluster ${sum(starts)} s`;
    return `  ${kind}: ${seconds.toFixed(0)} s, ${runs.length} runs of ${sum(runs.map((run) => run.seconds))} s in all${starting}`;
  });
  const slowest = kinds
    .flatMap(({ runs }) => runs)
    .toSorted((a, b) => b.seconds - a.seconds)
    .slice(0, SLOWEST)
    .map(({ label, seconds }) => `  ${seconds.toFixed(1).padStart(6)} s ${label}`);
  return ["where the time went:", ...rows, `the slowest ${slowest.length} runs:`, ...slowest].join("\n");
}

function sum(figures: readonly number[]): string {
  return figures.reduce((total, figure) => total + figure, 0).toFixed(0);
}
