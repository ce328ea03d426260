import { test } from "uvu";
import * as assert from "uvu/assert";
import { PATHS, parseOptions } from "../../../scripts/bench/options.ts";

test("parseOptions: all paths but ladder and overload, without the long ones for --quick, or those that --only names", () => {
  const paths = (...words: string[]) => parseOptions(words).paths;
  assert.equal(
    paths(),
    PATHS.filter((path) => path !== "ladder" && path !== "overload"),
  );
  assert.not.ok(paths("--quick").includes("scale"));
  assert.equal(paths("--quick", "--only", "scale,ladder"), ["scale", "ladder"]);
  assert.equal(paths("--only", "cold, existing"), ["existing", "cold"], "measured in the usual order");
  assert.equal(parseOptions(["--compare", "a.json", "b.json"]).compare, ["a.json", "b.json"]);
});

for (const [words, why] of [
  [["--only", "pool,warm"], /no path warm; use existing/],
  [["--only", ""], /no path/],
  [["--seed", "one"], /--seed/],
  [["--fast"], /--fast/],
  [["--compare", "a.json"], /two files, got 1/],
  [["--compare", "a.json", "b.json", "c.json"], /two files, got 3/],
  [["a.json"], /a\.json: is no option/],
] as const) {
  test(`parseOptions refuses ${words.join(" ")}`, () => assert.throws(() => parseOptions(words), why));
}

test.run();
