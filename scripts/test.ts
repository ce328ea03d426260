// npm test [-- PATTERN…] | npm run test:unit|test:cluster|test:e2e [-- PATTERN…]: runs the test files whose path matches every pattern.
// --runtime=node|bun|deno leaves out the runs on other runtimes.
import { availableParallelism } from "node:os";
import { findBinaries } from "./cluster/binaries.ts";
import { findPolicyEngine } from "./cluster/policies/find-engine.ts";
import { findTestFiles } from "./test/find-test-files.ts";
import { runTestFile, type TestRun } from "./test/run-test-file.ts";

const kinds = {
  unit: { limitSeconds: 60, atOnce: availableParallelism() },
  cluster: { limitSeconds: 300, atOnce: 1 },
  e2e: { limitSeconds: 600, atOnce: 1 },
} as const;
type Kind = keyof typeof kinds;

const runtime = process.argv.find((argument) => argument.startsWith("--runtime="))?.split("=")[1];
const [first, ...rest] = process.argv.slice(2).filter((argument) => !argument.startsWith("--runtime="));
const isKind = first !== undefined && first in kinds;
const wanted: Kind[] = isKind ? [first as Kind] : (Object.keys(kinds) as Kind[]);
const patterns = isKind || first === undefined ? rest : [first, ...rest];

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());

const started = Date.now();
const runs: TestRun[] = [];
for (const kind of wanted) {
  const found = findTestFiles({ kind, patterns, limitSeconds: kinds[kind].limitSeconds });
  const files = found.filter((file) => runtime === undefined || file.runtime === runtime);
  if (files.length === 0) continue;
  // Building Kubernetes takes minutes the first time, which are no test's to spend.
  if (kind !== "unit") await findBinaries({ log: console.log });
  if (kind === "e2e") await findPolicyEngine({ log: console.log });
  console.log(`\n${kind}: ${files.length} runs`);
  await inParallel(files, kinds[kind].atOnce, async (file) => {
    if (stop.signal.aborted) return;
    const run = await runTestFile(file, stop.signal);
    report(run);
    runs.push(run);
  });
}
finish();

async function inParallel<T>(items: T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  async function worker(): Promise<void> {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  }
  await Promise.all(Array.from({ length: atOnce }, worker));
}

function report(run: TestRun): void {
  const mark = run.failed > 0 ? "FAIL" : "ok  ";
  const skipped = run.skipped > 0 ? `, ${run.skipped} skipped` : "";
  console.log(`${mark} ${run.label} (${run.passed} passed${skipped}, ${run.seconds.toFixed(1)} s)`);
  for (const line of run.notes) console.log(`     ${line}`);
  if (run.failed > 0) console.log(run.output.trimEnd().replace(/^/gm, "     | "));
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
  console.log(`\n${runs.length} runs in ${((Date.now() - started) / 1000).toFixed(0)} s`);
  console.log(`${total("passed")} passed, ${failed} failed${skipped}`);
  process.exitCode = failed > 0 ? 1 : 0;
}
