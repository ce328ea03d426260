// @runtimes bun node
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { JsonBoundError, type JsonBounds, parseForeignJson } from "../../../crds/foreign-json.ts";
import { MAX_LAG_MS, timeOf } from "../loop-lag.ts";

const test = suite("JSON of others");

const nested = (levels: number, open = "[", close = "]"): string => `${open.repeat(levels)}${close.repeat(levels)}`;
const objects = (levels: number): string => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
const list = (count: number, item = "0"): string => `[${Array(count).fill(item).join(",")}]`;

function boundOf(text: string, bounds?: JsonBounds): [status: number, message: string] | undefined {
  try {
    parseForeignJson(text, bounds);
    return undefined;
  } catch (error) {
    if (error instanceof JsonBoundError) return [error.status, error.message];
    throw error;
  }
}

test("what is beyond a bound is refused, and the bound is named", () => {
  const tooDeep = [400, "is nested more than 64 levels deep"];
  const tooMany = [413, "holds more than 50000 values"];
  for (const [text, refused, bounds] of [
    [nested(64), undefined],
    [nested(65), tooDeep],
    [objects(64), undefined],
    [objects(65), tooDeep],
    [`[${nested(40)},${objects(40)}]`, undefined],
    [`{"a":"\\"","b":${nested(64)}}`, tooDeep],
    [list(49_999), undefined],
    [list(50_000), tooMany],
    [list(24_999, "{}"), undefined],
    [list(50_000, "[]"), tooMany],
    [`"${"x".repeat(2 ** 20 - 2)}"`, undefined],
    [`"${"x".repeat(2 ** 20 - 1)}"`, [413, "is longer than 1048576 characters"]],
    ["[1]", [413, "is longer than 2 characters"], { characters: 2 }],
    ["[[1]]", [400, "is nested more than 1 levels deep"], { depth: 1 }],
    ["[1,2]", [413, "holds more than 2 values"], { values: 2 }],
  ] as const)
    assert.equal(boundOf(text, bounds), refused, text.slice(0, 80));
});

test("brackets, commas and quotes in strings count for nothing", () => {
  for (const value of ["[".repeat(1000), ",".repeat(60_000), '"'.repeat(1000), "\\".repeat(1001), '\\"[', '[\\\\"']) {
    assert.is(parseForeignJson(JSON.stringify(value)), value);
    assert.equal(parseForeignJson(JSON.stringify({ [value]: [value] })), { [value]: [value] });
  }
});

test("whatever is within the bounds is read as JSON.parse reads it", () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string(), fc.stringMatching(/^[[\]{}",:\\01a ]*$/)), (text) => {
      let expected: unknown;
      try {
        expected = JSON.parse(text);
      } catch {
        assert.throws(() => parseForeignJson(text));
        return;
      }
      assert.equal(parseForeignJson(text), expected);
    }),
  );
});

const MIB = 1024 * 1024;
for (const [what, text] of Object.entries({
  "a million brackets": "[".repeat(MIB),
  "40 000 levels": nested(40_000),
  "objects in objects": objects(40_000),
  "the same, behind a string that ends in backslashes": `["${"\\".repeat(MIB / 2)}",${nested(10_000)}]`,
  "a string that does not end": `"${"\\".repeat(MIB - 1)}`,
  "escaped quotes": `"${'\\"'.repeat(MIB / 2 - 1)}"`,
  "empty strings": `[${'"",'.repeat(MIB / 3 - 2)}""]`,
  "as many arrays as may be, as deep as may be": list(780, nested(63)),
  "as many names as may be": `{${Array.from({ length: 49_000 }, (_, at) => `"k${at}":0`).join(",")}}`,
  "as many kinds of objects as may be": `[${Array.from({ length: 16_000 }, (_, at) => `{"k${at}":0}`).join(",")}]`,
}))
  test(`${what}: read and written, or refused, in less than ${MAX_LAG_MS} ms`, () => {
    const ms = timeOf(() => {
      try {
        JSON.stringify(parseForeignJson(text));
      } catch (error) {
        assert.ok(error instanceof JsonBoundError || error instanceof SyntaxError, String(error));
      }
    });
    console.log(`note: ${what}: ${ms.toFixed(1)} ms`);
    assert.ok(ms < MAX_LAG_MS, `${ms} ms`);
  });

test.run();
