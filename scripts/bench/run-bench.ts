import type { Log } from "../cluster/log.ts";
import { bundleOperator } from "../start/bundle-programs.ts";
import { requestsPerClaim } from "./audit-log.ts";
import type { BenchOptions } from "./options.ts";
import type { CountablePath } from "./paths/count-paths.ts";
import type { BenchReport } from "./report/bench-report.ts";
import { currentCommit, describeMachine } from "./report/machine.ts";
import { failedRow, type Row, summarise } from "./report/summarise.ts";
import { renderReport } from "./report/table.ts";
import { isRealPath, runReal } from "./run-real.ts";
import { runSimulated, type SimulatedResult } from "./run-simulated.ts";

const NOTHING: SimulatedResult = { kubernetes: "", results: [], scale: undefined, counted: {} };

/**
 * Runs the requested measurements, and reports progress on standard error.
 *
 * @returns the figures, the same as text for people, and whether anything failed
 */
export async function runBench(
  options: BenchOptions & { root: string; signal: AbortSignal },
): Promise<{ report: BenchReport; text: string; failed: boolean }> {
  const { paths, quick, seed, root, signal } = options;
  const log = createProgress();
  const [commit, machine, bundle] = await Promise.all([currentCommit(root), describeMachine(), bundleOperator(root)]);
  const startedAt = new Date().toISOString();
  const simulatedPaths = paths.filter((path) => !isRealPath(path));
  const simulated =
    simulatedPaths.length === 0
      ? NOTHING
      : await runSimulated({ ...options, paths: simulatedPaths, bundle, log, signal });
  const real = paths.some(isRealPath) ? await runReal({ ...options, bundle, log, signal }) : undefined;
  const { counted, scale } = simulated;

  const results = [...simulated.results, ...(real?.results ?? [])];
  const rows = results.flatMap((result): Row[] =>
    result.kind === "failed"
      ? [failedRow(result.path, result.error)]
      : result.measurements.map((measurement) => {
          const idle = measurement.path === "pool" ? counted.pool?.server : undefined;
          return summarise({ ...(idle && { server: idle }), ...measurement }, costOf(measurement.path));
        }),
  );
  const report: BenchReport = {
    ...{ commit, startedAt, quick, seed, machine, rows },
    kubernetes: simulated.kubernetes || (real?.kubernetes ?? ""),
    scale: scale ?? null,
    requests: counted,
  };
  const failed = rows.some((row) => row.error !== undefined || row.failed > 0);
  return { report, text: renderReport(report), failed };

  function costOf(path: string) {
    const as: CountablePath = path === "existing" ? "existing" : path.startsWith("cold") ? "cold" : "pool";
    const found = path === "refill" || /^(http|proxy)-/.test(path) || path.includes("+data") ? undefined : counted[as];
    return found && requestsPerClaim(found.requests, found.claims);
  }
}

function createProgress(): Log {
  const began = performance.now();
  return (line) => process.stderr.write(`${((performance.now() - began) / 1000).toFixed(1).padStart(6)} ${line}\n`);
}
