// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { compareResourceVersions } from "../../../crds/client/watch/store.ts";

test("compareResourceVersions orders decimals of any length as numbers", () => {
  const property = fc.property(fc.bigInt({ min: 0n }), fc.bigInt({ min: 0n }), (a, b) => {
    const expected = a < b ? -1 : a > b ? 1 : 0;
    assert.is(Math.sign(compareResourceVersions(String(a), String(b)) ?? Number.NaN), expected);
  });
  fc.assert(property, { numRuns: 1000 });
});

test("compareResourceVersions knows no order of what is not a decimal", () => {
  for (const [a, b] of [
    ["10", "abc"],
    ["", "1"],
    ["01", "1"],
    ["-1", "1"],
    ["1.5", "2"],
    ["0x1", "1"],
  ] as const) {
    assert.is(compareResourceVersions(a, b), undefined, `${a} ${b}`);
    assert.is(compareResourceVersions(b, a), undefined, `${b} ${a}`);
  }
  assert.is(compareResourceVersions("abc", "abc"), 0);
});

test.run();
