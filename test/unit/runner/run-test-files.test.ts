import { test } from "uvu";
import * as assert from "uvu/assert";
import { findTestFiles, type TestFile } from "../../../scripts/test/find-test-files.ts";
import { runTestFiles } from "../../../scripts/test/run-test-files.ts";

const seconds: Record<string, number> = {
  short: 1,
  long: 30,
  alone: 5,
  longer: 40,
  "long alone": 6,
  "long waits": 50,
  "short waits": 2,
};

function file(label: string): TestFile {
  return {
    kind: "unit",
    label,
    path: label,
    runtime: "node",
    limitSeconds: 35,
    isAlone: label.includes("alone"),
    waits: label.includes("waits"),
    hasOwnCluster: false,
    longBecause: undefined,
  };
}

/** Runs files that end when they are told to; what is under way is shown. */
async function stage(atOnce: number, names: string[], waitingAtOnce = 1) {
  const running = new Map<string, () => void>();
  const begun: string[] = [];
  const stop = new AbortController();
  const done = runTestFiles(names.map(file), {
    ...{ atOnce, waitingAtOnce },
    lastSeconds: ({ label }) => seconds[label],
    signal: stop.signal,
    run: ({ label }) =>
      new Promise((resolve) => {
        begun.push(label);
        running.set(label, () => {
          running.delete(label);
          resolve();
        });
      }),
  });
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
  const end = async (label: string) => {
    running.get(label)?.();
    await nextTurn();
  };
  await nextTurn();
  return { begun, running: () => [...running.keys()], done, end, stop };
}

test("runTestFiles starts the longest first, one that never ran as long as its limit, and as many as may run at once", async () => {
  const { begun, running, done, end } = await stage(2, ["short", "long", "new", "longer"]);
  assert.equal(running(), ["longer", "new"]);
  await end("new");
  assert.equal(running(), ["longer", "long"]);
  for (const label of ["long", "short", "longer"]) await end(label);
  await done;
  assert.equal(begun, ["longer", "new", "long", "short"]);
});

test("runTestFiles runs nothing beside a file that is to be alone", async () => {
  const { running, done, end } = await stage(3, ["short", "alone", "long", "long alone"]);
  assert.equal(running(), ["long alone"]);
  await end("long alone");
  assert.equal(running(), ["alone"]);
  await end("alone");
  assert.equal(running(), ["long", "short"]);
  for (const label of ["long", "short"]) await end(label);
  await done;
});

test("runTestFiles runs one that waits beside the others, and the rest of those last", async () => {
  const { running, done, end } = await stage(1, ["short waits", "short", "long", "long waits", "alone"]);
  assert.equal(running(), ["alone"]);
  await end("alone");
  assert.equal(running(), ["long waits", "long"]);
  for (const label of ["long", "short"]) await end(label);
  assert.equal(running(), ["long waits", "short waits"]);
  for (const label of ["long waits", "short waits"]) await end(label);
  await done;

  const one = await stage(1, ["short waits", "short", "long"], 0);
  for (const label of ["long", "short", "short waits"]) {
    assert.equal(one.running(), [label]);
    await one.end(label);
  }
  await one.done;
});

test("runTestFiles begins none after it was told to stop", async () => {
  const { begun, done, end, stop } = await stage(1, ["alone", "short", "long"]);
  stop.abort();
  await end("alone");
  await done;
  assert.equal(begun, ["alone"]);
});

test("findTestFiles runs a file elsewhere than on Node where it names no runtime", () => {
  const options = { kind: "unit", patterns: ["runner/", "run-test-file"], limitSeconds: 60 } as const;
  const runs = (otherwise: "node" | "bun") =>
    findTestFiles({ ...options, otherwise }).map(({ path, runtime }) => [path.split("/").at(-1), runtime]);
  assert.equal(runs("node"), [
    ["run-test-file.test.ts", "node"],
    ["run-test-files.test.ts", "node"],
  ]);
  assert.equal(runs("bun"), [
    ["run-test-file.test.ts", "node"],
    ["run-test-files.test.ts", "bun"],
  ]);
});

test("findTestFiles leaves all but the first runtime of a file to the long run", () => {
  const runs = findTestFiles({ kind: "unit", patterns: ["client/store.test"], limitSeconds: 60, otherwise: "node" });
  assert.equal(
    runs.map(({ runtime, longBecause }) => [runtime, longBecause]),
    [
      ["bun", undefined],
      ["node", "runs on bun before"],
      ["deno", "runs on bun before"],
    ],
  );
});

test.run();
