import { test } from "uvu";
import * as assert from "uvu/assert";
import { namedPaths, reachedFrom } from "../../../scripts/test/changed-files.ts";

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
