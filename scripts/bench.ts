// npm run bench: measures how fast claims are, compared with the API calls that they need at least.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BenchOptions, parseOptions, usage } from "./bench/options.ts";
import type { BenchReport } from "./bench/report/bench-report.ts";
import { readReport, renderComparison } from "./bench/report/compare.ts";
import { runBench } from "./bench/run-bench.ts";
import { onInterrupt } from "./start/on-interrupt.ts";

const root = join(import.meta.dirname, "..");
process.env.PATH = `${join(root, "node_modules", ".bin")}:${process.env.PATH}`;
const stopping = new AbortController();
onInterrupt((signal) => {
  // This process's exit stops what it started.
  if (stopping.signal.aborted) process.exit(130);
  stopping.abort(new Error(`stopped by ${signal}`));
});

const options = readOptions();
if (options.help) {
  console.log(usage);
} else if (options.compare !== undefined) {
  try {
    const [a, b] = options.compare.map(readReport) as [BenchReport, BenchReport];
    console.log(renderComparison(a, b));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
} else {
  try {
    const { report, text, failed } = await runBench({ ...options, root, signal: stopping.signal });
    if (options.jsonPath !== undefined) writeFileSync(options.jsonPath, `${JSON.stringify(report)}\n`);
    console.log(text);
    if (failed) process.exitCode = 1;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = stopping.signal.aborted ? 130 : 1;
  }
  // Everything is stopped. Anything of this process that is still open must not keep it running.
  setTimeout(() => process.exit(), 2000).unref();
}

function readOptions(): BenchOptions {
  try {
    return parseOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${usage}`);
    process.exit(2);
  }
}
