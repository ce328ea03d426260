import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { dependentsOf, namedPaths, reachedFrom } from "../../../scripts/test/changed-files.ts";

const root = join(import.meta.dirname, "../../..");

test("namedPaths finds imports, files from the top, and the words of a join", () => {
  const program = `
import { a } from "../crds/a.ts";
const b = await import("./b.ts");
const words = ["scripts/bootstrap.mjs", "and", "./c/"];
const chart = join(root, "manifests", "chart");`;
  assert.equal(namedPaths(program, "operator"), [
    ...["crds/a.ts", "operator/b.ts", "scripts/bootstrap.mjs", "operator/c"],
    ...["manifests/chart", "operator/manifests/chart"],
  ]);
});

test("a change of the program inside selects the e2e tests, whose local cluster has it in an image", () => {
  const builder = "scripts/cluster/images/inside-program.ts";
  const named = namedPaths(readFileSync(join(root, builder), "utf8"), dirname(builder));
  assert.ok(named.includes("edge/inside/program"));
  const dependents = dependentsOf(root, builder);
  for (const name of ["snapshots/lifecycle-images", "egress/stack", "build/workloads"])
    assert.ok(dependents.has(`test/e2e/${name}.test.ts`), name);
});

test("a change of the dashboard selects the tests of its pages", () => {
  const dependents = dependentsOf(root, "edge/dashboard/style.css");
  for (const name of ["pages", "hostile", "claim-page"])
    assert.ok(dependents.has(`test/browser/${name}.test.ts`), name);
});

test("reachedFrom follows references backwards through others, also in a circle", () => {
  const references = new Map([
    ["a.test.ts", ["b.ts"]],
    ["b.ts", ["c.ts"]],
    ["c.ts", ["b.ts"]],
    ["d.test.ts", ["e.ts"]],
  ]);
  assert.equal([...reachedFrom(["c.ts"], references)], ["c.ts", "b.ts", "a.test.ts"]);
});

test.run();
