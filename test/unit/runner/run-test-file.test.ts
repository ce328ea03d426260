// @runtimes node
// @waits
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { runtimes } from "../../../scripts/test/find-test-files.ts";
import { failedTests, runTestFile } from "../../../scripts/test/run-test-file.ts";

const root = join(import.meta.dirname, "..", "..", "..");
const test = suite<{ folder: string }>("runTestFile");
test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "run-test-file-"));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

const file = { kind: "unit", isAlone: false, waits: false, hasOwnCluster: false, longBecause: undefined } as const;

function write(folder: string, program: string, limitSeconds = 60) {
  const path = relative(root, join(folder, "program.mts"));
  writeFileSync(join(root, path), program);
  return { ...file, path, label: "program", runtime: "node", limitSeconds } as const;
}

/**
 * A program whose child takes a moment to put away what it made, longer than the program itself lives. The child is no
 * shell: dash can end by a signal that it has a trap for, if that comes while it starts a command.
 */
const withChild = (folder: string) => `
import { spawn } from "node:child_process";
const child = \`
  const { rmSync, writeFileSync } = require("node:fs");
  process.on("SIGTERM", () => setTimeout(() => { rmSync("${folder}/made"); process.exit(); }, 1000));
  writeFileSync("${folder}/started", "");
  writeFileSync("${folder}/made", "");
  setInterval(() => undefined, 1000);
\`;
spawn(process.execPath, ["-e", child]);
setInterval(() => undefined, 1000);
`;

test("waits for what a file that is told to stop has started", async ({ folder }) => {
  const stop = new AbortController();
  const made = join(folder, "made");
  const running = runTestFile(write(folder, withChild(folder)), stop);
  await waitUntil(() => existsSync(made), { what: "the child", limitMs: 60_000 });
  stop.abort();
  const { failed, problem, output } = await running;
  assert.is(failed, 1);
  assert.match(problem, "exit SIGTERM", output);
  assert.not.ok(existsSync(made), "its child has put it away");
});

test("waits for what a file that is over its limit has started", async ({ folder }) => {
  const [made, started] = [join(folder, "made"), join(folder, "started")];
  // Within a short one a busy machine may not even have started it.
  for (const limitSeconds of [1, 5, 15, 45]) {
    const program = write(folder, withChild(folder), limitSeconds);
    const { failed, problem, output } = await runTestFile(program, new AbortController());
    assert.is(failed, 1);
    assert.match(problem, "still running after its limit", output);
    assert.not.ok(existsSync(made), "its child has put it away");
    if (existsSync(started)) return;
  }
  assert.unreachable("it never started its child");
});

test("kills what a file that has ended left running", async ({ folder }) => {
  const program = `${withChild(folder)}
import { existsSync } from "node:fs";
while (!existsSync("${folder}/made")) await new Promise((resolve) => setTimeout(resolve, 10));
console.log("  Total:     1\\n  Passed:    1\\n  Skipped:   0");
process.exit(0);`;
  const { failed, passed } = await runTestFile(write(folder, program), new AbortController());
  assert.equal([failed, passed], [0, 1]);
  assert.ok(existsSync(join(folder, "made")));
});

for (const runtime of runtimes) {
  test(`shows on ${runtime} what a hook has thrown`, async () => {
    const path = "test/unit/runner/failing-hook.ts";
    const failing = { ...file, path, label: "failing hook", runtime, limitSeconds: 60 };
    const { failed, problem, output } = await runTestFile(failing, new AbortController());
    assert.is(failed, 1);
    assert.is(problem, "1 of 1 tests failed");
    assert.match(output, "the before hook failed");
    assert.match(output, "cannot start what the tests need");
  });

  test(`keeps on ${runtime} what each test that failed says`, async () => {
    const path = "test/unit/runner/failing-test.ts";
    const failing = { ...file, path, label: "failing test", runtime, limitSeconds: 60 };
    const { output } = await runTestFile(failing, new AbortController());
    const [first = "", second = "", ...others] = failedTests(output);
    assert.match(
      first,
      /^FAIL +"adds up"\n +Expected values to be strictly equal:(.|\n)*3 +\(Expected\)\n.*2 +\(Actual\)$/,
    );
    assert.match(second, /^FAIL +"says why"\n +there is no third$/);
    assert.equal(others, []);
  });
}

test.run();
