import { test } from "uvu";
import * as assert from "uvu/assert";
import { PATHS, parseOptions } from "../../../scripts/bench/options.ts";

test("parseOptions: everything but the ladder, unless told otherwise", () => {
  assert.equal(parseOptions([]), {
    paths: PATHS.filter((path) => path !== "ladder"),
    quick: false,
    jsonPath: undefined,
    seed: 1,
    profileFolder: undefined,
    compare: undefined,
    help: false,
  });
});

test("parseOptions: --quick leaves out what takes long, unless --only names it", () => {
  assert.not.ok(parseOptions(["--quick"]).paths.includes("scale"));
  assert.equal(parseOptions(["--quick", "--only", "scale,ladder"]).paths, ["scale", "ladder"]);
});

test("parseOptions: --only takes several, which are measured in the usual order", () => {
  assert.equal(parseOptions(["--only", "cold, existing"]).paths, ["existing", "cold"]);
});

test("parseOptions: a path that does not exist is refused with those that do", () => {
  assert.throws(() => parseOptions(["--only", "pool,warm"]), /no path warm; use existing/);
  assert.throws(() => parseOptions(["--only", ""]), /no path/);
});

test("parseOptions: a seed that is no number is refused, and so is an unknown option", () => {
  assert.throws(() => parseOptions(["--seed", "one"]), /--seed/);
  assert.throws(() => parseOptions(["--fast"]), /--fast/);
});

test("parseOptions: --compare takes two files, and nothing else does", () => {
  assert.equal(parseOptions(["--compare", "a.json", "b.json"]).compare, ["a.json", "b.json"]);
  assert.throws(() => parseOptions(["--compare", "a.json"]), /two files, got 1/);
  assert.throws(() => parseOptions(["--compare", "a.json", "b.json", "c.json"]), /two files, got 3/);
  assert.throws(() => parseOptions(["a.json"]), /a\.json: is no option/);
});

test.run();
