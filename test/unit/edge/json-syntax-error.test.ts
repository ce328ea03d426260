// @runtimes bun node deno
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { jsonSyntaxError } from "../../../edge/http/json-syntax-error.ts";

const test = suite("jsonSyntaxError");

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

test("agrees with JSON.parse on what is JSON", () => {
  const pieces = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"a"',
    '"',
    "\\",
    "1",
    "-",
    "0",
    ".5",
    "e+1",
    "true",
    "nul",
    "null",
    " ",
    "\n",
    "\t",
    "\u0001",
    "\\u00e9",
    "x",
    "\ufeff",
    "\u00a0",
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 12 }), (parts) => {
      const text = parts.join("");
      assert.is(jsonSyntaxError(text) === undefined, parses(text), JSON.stringify(text));
    }),
    { numRuns: 5000 },
  );
});

test("agrees with JSON.parse on JSON with one character changed", () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), fc.constantFrom("", ",", '"', "}", "0", "\\", "\n"), (json, at, character) => {
      const cut = at % (json.length + 1);
      const text = json.slice(0, cut) + character + json.slice(cut + 1);
      assert.is(jsonSyntaxError(text) === undefined, parses(text), text);
    }),
    { numRuns: 2000 },
  );
});

test("says line, column and what is wrong", () => {
  assert.is(jsonSyntaxError('{"a": [1,\n 2,, 3]}'), "line 2, column 4: expected a value");
  assert.is(jsonSyntaxError('{"a": 1 "b": 2}'), 'line 1, column 9: expected a comma or "}"');
  assert.is(jsonSyntaxError("[1 2]"), 'line 1, column 4: expected a comma or "]"');
  assert.is(jsonSyntaxError("[1,"), "line 1, column 4: ends where a value is expected");
  assert.is(jsonSyntaxError('["abc'), "line 1, column 2: the string that starts here does not end");
  assert.is(jsonSyntaxError('["a\nb"]'), "line 1, column 4: a control character in a string must be escaped");
  assert.is(jsonSyntaxError('["\\x"]'), "line 1, column 3: unknown escape in a string");
  assert.is(jsonSyntaxError("[01]"), 'line 1, column 3: expected a comma or "]"');
  assert.is(jsonSyntaxError(""), "line 1, column 1: ends where a value is expected");
});

test("takes a megabyte of nesting and of one string", () => {
  assert.is(jsonSyntaxError("[".repeat(1_000_000)), 'line 1, column 1000001: ends where a value or "]" is expected');
  assert.is(jsonSyntaxError(`"${"\\n".repeat(500_000)}"`), undefined);
});

test.run();
