// npm run soak: random tenants and random faults against the real operator and edge. It checks the invariants of
// docs/explanation/promises.md.
import { join } from "node:path";
import { faultsOf } from "./soak/failover/options.ts";
import { renderFailover } from "./soak/failover/render-failover.ts";
import { runFailover } from "./soak/failover/run-failover.ts";
import { parseOptions, type SoakOptions, usage } from "./soak/options.ts";
import { runSoak } from "./soak/run-soak.ts";
import { renderSystematic, type SystematicReport } from "./soak/systematic/report.ts";
import { runEverywhere } from "./soak/systematic/run-everywhere.ts";
import { runStates } from "./soak/systematic/run-states.ts";
import { onInterrupt } from "./start/on-interrupt.ts";

const API_SERVER_AWAY_MS = 60_000;
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
} else if (options.failover !== undefined) {
  try {
    const report = await runFailover({
      faults: faultsOf(options.failover),
      ...{ awayMs: API_SERVER_AWAY_MS, tree: options.tree, log: console.log, signal: stopping.signal },
    });
    const { text, isGood } = renderFailover(report);
    console.log(`\n${text}`);
    if (!isGood) process.exitCode = 1;
  } catch (error) {
    console.error(error instanceof Error ? error.stack : error);
    process.exitCode = stopping.signal.aborted ? 130 : 1;
  }
  setTimeout(() => process.exit(), 2000).unref();
} else if (options.driver !== undefined) {
  try {
    const report = await runSystematic(options.driver);
    console.log(`\n${renderSystematic(report)}`);
    if (report.differences.length > 0) process.exitCode = 1;
  } catch (error) {
    console.error(error instanceof Error ? error.stack : error);
    process.exitCode = stopping.signal.aborted ? 130 : 1;
  }
  setTimeout(() => process.exit(), 2000).unref();
} else {
  try {
    const { violations, trouble, summary, traceFolder } = await runSoak({
      ...options,
      log: console.log,
      signal: stopping.signal,
    });
    for (const { invariant, message, events } of violations.slice(0, 5))
      console.log(`\nviolation of "${invariant}": ${message}\n${events.map((event) => `  ${event}`).join("\n")}`);
    console.log(`\n${summary}`);
    if (traceFolder !== undefined) console.log(`every event, and what the programs wrote: ${traceFolder}`);
    if (violations.length > 0 || trouble.length > 0) {
      console.log(
        `again: npm run soak --${options.isContainers ? " --containers" : ""} --minutes ${options.minutes} --seed ${options.seed}`,
      );
      process.exitCode = 1;
    }
  } catch (error) {
    console.error(error instanceof Error ? error.stack : error);
    process.exitCode = stopping.signal.aborted ? 130 : 1;
  }
  // Everything is stopped. Anything of this process that is still open must not keep it running.
  setTimeout(() => process.exit(), 2000).unref();
}

function runSystematic(driver: "crash-everywhere" | "states"): Promise<SystematicReport> {
  const { tree, keepGoing, traceFolder, seed, story, at, field } = options;
  const shared = { tree, keepGoing, traceFolder, log: console.log, signal: stopping.signal };
  if (driver === "states") return runStates({ ...shared, seed, fields: field === undefined ? undefined : [field] });
  return runEverywhere({ ...shared, at, stories: story === undefined ? undefined : [story] });
}

function readOptions(): SoakOptions {
  try {
    return parseOptions(process.argv.slice(2), root);
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${usage}`);
    process.exit(2);
  }
}
