// npm test | npm run test:unit|test:cluster|test:browser|test:e2e [-- PATTERN…]: runs the test files whose path matches
// every pattern. Each runs on the first runtime that it names; with a pattern, on all of them. npm run test:long runs
// the tests that npm test leaves out, and npm run test:all runs both. npm run test:changed [-- COMMIT] runs the tests
// that a change since a commit can affect. Options: --tier=short|long|all, --runtime=node|bun|deno, --at-once=N files
// beside each other, --quick (see options.ts).
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { findBinaries } from "./cluster/binaries.ts";
import { installedDebianPackages } from "./cluster/debian-packages.ts";
import { findHelm } from "./cluster/helm/find-helm.ts";
import { findObjectServer } from "./cluster/objects/object-server.ts";
import { findPolicyEngine } from "./cluster/policies/find-engine.ts";
import { bundleDashboard } from "./start/bundle-dashboard.ts";
import { type BundledTests, bundleTests } from "./test/bundle-tests.ts";
import { affectedFiles, defaultBase, dependentsOf } from "./test/changed-files.ts";
import { findChromium } from "./test/find-chromium.ts";
import { findTestFiles, type Kind, type TestFile } from "./test/find-test-files.ts";
import { lastSeconds } from "./test/last-seconds.ts";
import { type Lending, lending } from "./test/lending.ts";
import { memoryFolder } from "./test/memory-folder.ts";
import { parseTestOptions, type TestOptions } from "./test/options.ts";
import { createProgressLine } from "./test/progress-line.ts";
import { failedTests, runTestFile, type TestRun } from "./test/run-test-file.ts";
import { runTestFiles } from "./test/run-test-files.ts";
import { startSharedControlPlane } from "./test/shared-control-planes.ts";
import { startSharedLocalCluster } from "./test/shared-local-clusters.ts";
import { timeReport } from "./test/time-report.ts";

// The reason for these numbers: docs/decisions/tests-and-bench.md#how-many-test-files-run-at-once.
const kinds: Record<Kind, { limitSeconds: number; atOnce: number }> = {
  unit: { limitSeconds: 180, atOnce: availableParallelism() + 1 },
  cluster: { limitSeconds: 600, atOnce: 4 },
  browser: { limitSeconds: 300, atOnce: 2 },
  e2e: { limitSeconds: 1200, atOnce: 3 },
};

const root = join(import.meta.dirname, "..");
const options = readOptions();
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());

const started = performance.now();
const packagesBefore = installedDebianPackages();
const last = lastSeconds();
const line = createProgressLine();
const shared = lendings();
const inMemory = memoryFolder();
const affected = findAffected();
const runs: TestRun[] = [];
for (const kind of options.kinds) {
  const files = wantedFiles(kind);
  if (files.length === 0) continue;
  // Each of the other shared programs takes half a gigabyte.
  await stopShared(shared[kind]);
  await prepare(kind, files);
  console.log(`\n${kind}: ${files.length} runs`);
  const forNode = files.filter(({ runtime }) => runtime === "node");
  const bundled = await bundleTests(root, forNode);
  try {
    await runAll(kind, files, bundled);
  } finally {
    bundled.remove();
  }
}
await stopShared();
line.close();
finish();

function readOptions(): TestOptions {
  try {
    return parseTestOptions(process.argv.slice(2));
  } catch (error) {
    console.error((error as Error).message);
    process.exit(2);
  }
}

function findAffected(): Set<string> | undefined {
  if (options.changedSince === undefined) return undefined;
  const base = options.changedSince || defaultBase(root);
  console.log(`files that a change since ${base.slice(0, 12)} can affect`);
  return affectedFiles(root, base);
}

function wantedFiles(kind: Kind): TestFile[] {
  const { patterns, tier, runtime } = options;
  const otherwise = options.quick && kind === "unit" ? "bun" : "node";
  return findTestFiles({ kind, patterns, limitSeconds: kinds[kind].limitSeconds, otherwise })
    .filter((file) => tier === "all" || (tier === "long") === (file.longBecause !== undefined))
    .filter((file) => runtime === undefined || file.runtime === runtime)
    .filter((file) => affected?.has(file.path) ?? true);
}

/** Prepares what the files need. The first build of a program takes minutes, and a test has no time for that. */
async function prepare(kind: Kind, files: readonly TestFile[]): Promise<void> {
  if (kind === "unit") return;
  await findBinaries({ log: console.log });
  await bundleDashboard(root);
  if (kind === "browser") await findChromium({ log: console.log });
  if (kind === "e2e") await findPolicyEngine({ log: console.log });
  if (files.some(({ path }) => path.includes("cluster/chart/"))) await findHelm(console.log);
  const withObjects = dependentsOf(root, "scripts/cluster/objects/object-server.ts");
  if (files.some(({ path }) => withObjects.has(path))) await findObjectServer(console.log);
}

async function runAll(kind: Kind, files: readonly TestFile[], bundled: BundledTests): Promise<void> {
  const seconds = new Map<string, number>();
  await runTestFiles(files, {
    atOnce: options.atOnce ?? (options.quick ? 2 * availableParallelism() : kinds[kind].atOnce),
    waitingAtOnce: options.atOnce === undefined ? 1 : 0,
    lastSeconds: ({ label }) => last.get(label),
    signal: stop.signal,
    async run(file) {
      line.started(file.label);
      const run = await runOn(file, bundled);
      line.ended(file.label);
      line.print(reportOf(run));
      runs.push(run);
      if (run.failed === 0) seconds.set(run.label, run.seconds);
    },
  });
  last.keep(seconds);
}

/** What the files of a kind share. Browser files use what the cluster files used before. */
function lendings(): Partial<Record<Kind, Lending>> {
  const log = (message: string) => line.print(message);
  const controlPlanes = lending(startSharedControlPlane, { what: "control plane", log });
  return {
    cluster: controlPlanes,
    browser: controlPlanes,
    e2e: lending(startSharedLocalCluster, { what: "local cluster", log }),
  };
}

async function stopShared(except?: Lending): Promise<void> {
  const others = new Set(Object.values(shared).filter((one) => one !== except));
  await Promise.all([...others].map((one) => one.stop()));
}

function runOn(file: TestFile, bundled: BundledTests): Promise<TestRun> {
  const given = {
    signal: stop.signal,
    environment: file.kind === "unit" && inMemory !== undefined ? { TMPDIR: inMemory } : {},
    ...(file.runtime === "node" && { module: bundled.moduleOf(file) }),
  };
  const lender = file.hasOwnCluster ? undefined : shared[file.kind];
  // Without one, the file starts its own, or reports why it cannot.
  return lender?.lend((environment) => runTestFile(file, { ...given, environment })) ?? runTestFile(file, given);
}

/** Prints all lines of a file as one block, since files run at the same time. */
function reportOf(run: TestRun): string {
  const mark = run.failed > 0 ? "FAIL" : "ok  ";
  const skipped = run.skipped > 0 ? `, ${run.skipped} skipped` : "";
  return [
    `${mark} ${run.label} (${run.passed} passed${skipped}, ${run.seconds.toFixed(1)} s)`,
    ...run.notes.map((note) => `     ${note}`),
    ...(run.failed > 0 ? [inBlock(run.output.trimEnd())] : []),
  ].join("\n");
}

function inBlock(text: string): string {
  return text.replace(/^/gm, "     | ");
}

function finish(): void {
  const total = (key: "passed" | "failed" | "skipped") => runs.reduce((sum, run) => sum + run[key], 0);
  const failures = runs.filter((run) => run.failed > 0);
  if (failures.length > 0) {
    const lines = failures.flatMap(({ label, problem, output }) => [
      `  ${label}: ${problem}`,
      ...failedTests(output).map(inBlock),
    ]);
    console.log(`\nfailed:\n${lines.join("\n")}`);
  }
  let failed = total("failed");
  if (runs.length > 0) console.log(`\n${timeReport(runs)}`);
  else if (affected === undefined) {
    console.log(`\nno test file matches ${options.patterns.join(" ") || "at all"}: nothing was tested`);
    failed = 1;
  } else console.log("\nno test file depends on what changed");
  if (stop.signal.aborted) failed = Math.max(failed, 1);
  const skipped = total("skipped") > 0 ? `, ${total("skipped")} skipped` : "";
  console.log(`\n${newPackages()}\n${runs.length} runs in ${((performance.now() - started) / 1000).toFixed(0)} s`);
  console.log(`${total("passed")} passed, ${failed} failed${skipped}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

/** What the runs needed and the machine did not have. */
function newPackages(): string {
  const added = [...(installedDebianPackages() ?? [])].filter((name) => !packagesBefore?.has(name));
  return `Debian packages installed by this run: ${added.sort().join(" ") || "none"}`;
}
