// npm test [-- PATTERN…] | npm run test:unit|test:cluster|test:browser|test:e2e [-- PATTERN…]: runs the test files
// whose path matches every pattern.
// --runtime=node|bun|deno leaves out the runs on other runtimes; --once runs each file once, on Bun where nothing
// speaks against it;
// --at-once=N runs that many files beside each other.
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { findBinaries } from "./cluster/binaries.ts";
import { installedDebianPackages } from "./cluster/debian-packages.ts";
import { findHelm } from "./cluster/helm/find-helm.ts";
import { findPolicyEngine } from "./cluster/policies/find-engine.ts";
import { bundleDashboard } from "./start/bundle-dashboard.ts";
import { findChromium } from "./test/find-chromium.ts";
import { findTestFiles, onceEach } from "./test/find-test-files.ts";
import { lastSeconds } from "./test/last-seconds.ts";
import { createProgressLine } from "./test/progress-line.ts";
import { runTestFile, type TestRun } from "./test/run-test-file.ts";
import { runTestFiles } from "./test/run-test-files.ts";

// Why so many at once: docs/decisions/tests-and-bench.md#how-many-test-files-run-at-once.
const kinds = {
  unit: { limitSeconds: 180, atOnce: availableParallelism() + 1 },
  cluster: { limitSeconds: 300, atOnce: 3 },
  browser: { limitSeconds: 300, atOnce: 2 },
  e2e: { limitSeconds: 900, atOnce: 2 },
} as const;
type Kind = keyof typeof kinds;

const option = (name: string) =>
  process.argv.find((argument) => argument.startsWith(`--${name}=`))?.slice(`--${name}=`.length);
const runtime = option("runtime");
const once = process.argv.includes("--once");
const atOnce = option("at-once");
if (atOnce !== undefined && !/^[1-9]\d*$/.test(atOnce)) {
  console.error(`--at-once: must be a number of files, got "${atOnce}"`);
  process.exit(2);
}
const [first, ...rest] = process.argv.slice(2).filter((argument) => !/^--(runtime=|at-once=|once$)/.test(argument));
const isKind = first !== undefined && first in kinds;
const wanted: Kind[] = isKind ? [first as Kind] : (Object.keys(kinds) as Kind[]);
const patterns = isKind || first === undefined ? rest : [first, ...rest];

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());

const started = Date.now();
const packagesBefore = installedDebianPackages();
const last = lastSeconds();
const line = createProgressLine();
const runs: TestRun[] = [];
for (const kind of wanted) {
  const otherwise = once && kind === "unit" && runtime === undefined ? "bun" : "node";
  const found = findTestFiles({ kind, patterns, limitSeconds: kinds[kind].limitSeconds, otherwise });
  const wantedRuns = found.filter((file) => runtime === undefined || file.runtime === runtime);
  const files = once ? onceEach(wantedRuns) : wantedRuns;
  if (files.length === 0) continue;
  // Building Kubernetes takes minutes the first time, which are no test's to spend.
  if (kind !== "unit") await findBinaries({ log: console.log });
  if (kind !== "unit") await bundleDashboard(join(import.meta.dirname, ".."));
  if (kind === "browser") await findChromium({ log: console.log });
  if (kind === "e2e") await findPolicyEngine({ log: console.log });
  if (files.some(({ path }) => path.includes("cluster/chart/"))) await findHelm(console.log);
  console.log(`\n${kind}: ${files.length} runs`);
  await runTestFiles(files, {
    atOnce: atOnce === undefined ? kinds[kind].atOnce : Number(atOnce),
    waitingAtOnce: atOnce === undefined ? 1 : 0,
    lastSeconds: ({ label }) => last.get(label),
    signal: stop.signal,
    async run(file) {
      line.started(file.label);
      const run = await runTestFile(file, stop.signal);
      line.ended(file.label);
      line.print(reportOf(run));
      runs.push(run);
    },
  });
}
line.close();
last.keep(new Map(runs.filter(({ failed }) => failed === 0).map(({ label, seconds }) => [label, seconds])));
finish();

/** All lines of a file as one block, since others end before and after it. */
function reportOf(run: TestRun): string {
  const mark = run.failed > 0 ? "FAIL" : "ok  ";
  const skipped = run.skipped > 0 ? `, ${run.skipped} skipped` : "";
  return [
    `${mark} ${run.label} (${run.passed} passed${skipped}, ${run.seconds.toFixed(1)} s)`,
    ...run.notes.map((note) => `     ${note}`),
    ...(run.failed > 0 ? [run.output.trimEnd().replace(/^/gm, "     | ")] : []),
  ].join("\n");
}

function finish(): void {
  const total = (key: "passed" | "failed" | "skipped") => runs.reduce((sum, run) => sum + run[key], 0);
  const failures = runs.filter((run) => run.failed > 0);
  if (failures.length > 0)
    console.log(`\nfailed:\n${failures.map((run) => `  ${run.label}: ${run.problem}`).join("\n")}`);
  let failed = total("failed");
  if (runs.length === 0) {
    console.log(`\nno test file matches ${patterns.join(" ") || "at all"}: nothing was tested`);
    failed = 1;
  }
  if (stop.signal.aborted) failed = Math.max(failed, 1);
  const skipped = total("skipped") > 0 ? `, ${total("skipped")} skipped` : "";
  console.log(`\n${newPackages()}\n${runs.length} runs in ${((Date.now() - started) / 1000).toFixed(0)} s`);
  console.log(`${total("passed")} passed, ${failed} failed${skipped}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

/** What the runs needed that the machine did not have. */
function newPackages(): string {
  const added = [...(installedDebianPackages() ?? [])].filter((name) => !packagesBefore?.has(name));
  return `Debian packages installed meanwhile: ${added.sort().join(" ") || "none"}`;
}
