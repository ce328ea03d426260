// @runtimes bun
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { splitText } from "../../../edge/gateway/messenger/reply-text.ts";
import { anyCharacter } from "../any-character.ts";

const test = suite("splitText");

test("nothing of a blank text, and one part of a short one", () => {
  assert.equal(splitText(""), []);
  assert.equal(splitText(" \n "), []);
  assert.equal(splitText(" a \n"), ["a"]);
  assert.equal(splitText("x".repeat(4096)), ["x".repeat(4096)]);
});

test("parts end at a paragraph, else a line, else a word, else anywhere", () => {
  const [a, b] = ["a".repeat(3_000), "b".repeat(3_000)];
  assert.equal(splitText(`${a}\n\n${b}`), [a, b]);
  assert.equal(splitText(`${a}\n${b}`), [a, b]);
  assert.equal(splitText(`${a} ${b}`), [a, b]);
  assert.equal(splitText(a + b), ["a".repeat(3_000) + "b".repeat(1_096), "b".repeat(1_904)]);
  assert.equal(splitText(`x\n\n${"c".repeat(5_000)}`)[0]?.length, 4096, "not at a paragraph that leaves a stub");
});

test("the sixteenth part says that the rest is cut", () => {
  const parts = splitText("x".repeat(100_000));
  assert.is(parts.length, 16);
  assert.is(parts[15]?.length, 4096);
  assert.match(parts[15] ?? "", /\[truncated: the answer is longer than one reply\]$/);
});

test("any text: parts of at most 4096 code units, no half of a character, nothing lost but blanks", () => {
  const piece = fc.oneof(
    fc.constantFrom(" ", "\n", "\n\n", "😀", "\ud83d", "é", "a\u0301"),
    fc.string({ unit: anyCharacter, maxLength: 50 }),
    fc.integer({ min: 1, max: 3_000 }).map((length) => "w".repeat(length)),
    fc.integer({ min: 1, max: 3_000 }).map((length) => "😀".repeat(length)),
  );
  let count = 0;
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const text = pieces.join("");
      const parts = splitText(text);
      count++;
      for (const part of parts) {
        assert.ok(part.length > 0 && part.length <= 4096);
        assert.is(Buffer.from(part).toString(), part, "well-formed");
      }
      const blank = /\s+/g;
      if (parts.length < 16) {
        assert.is(parts.join("").replace(blank, ""), Buffer.from(text).toString().replace(blank, ""));
      }
    }),
    { numRuns: 500 },
  );
  console.log(`note: ${count} texts split`);
});

test.run();
