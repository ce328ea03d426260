// @runtimes bun node deno
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createLineSplitter } from "../../../crds/client/watch/watch-stream.ts";
import { anyCharacter } from "../any-character.ts";

function split(chunks: readonly Buffer[]): string[] {
  const lines: string[] = [];
  const splitter = createLineSplitter((line) => lines.push(line.toString()));
  for (const chunk of chunks) splitter.push(chunk);
  return lines;
}

function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const cuts = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...cuts].map((start, index) => bytes.subarray(start, cuts[index] ?? bytes.length));
}

const line = fc
  .string({ unit: anyCharacter, minLength: 1 })
  .filter((text) => !text.includes("\n") && Buffer.from(text).toString() === text);

test("createLineSplitter gives the same lines however the bytes are cut, also inside a character", () => {
  const anything = fc.property(fc.array(line), fc.array(fc.nat({ max: 10_000 })), (lines, places) => {
    const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(""));
    assert.equal(split(cutAt(bytes, places)), lines);
  });
  fc.assert(anything, { numRuns: 500 });
});

test("createLineSplitter joins a line that arrives a byte at a time", () => {
  const bytes = Buffer.from("déjà vu €\n☃ 🦫\n");
  assert.equal(split([...bytes].map((byte) => Buffer.of(byte))), ["déjà vu €", "☃ 🦫"]);
});

test("createLineSplitter leaves out empty lines and an unfinished last one", () => {
  assert.equal(split([Buffer.from("a\n\n\nb\nc")]), ["a", "b"]);
});

test("createLineSplitter copies a line of many chunks once", () => {
  // A copy at every chunk would move half a terabyte, and outlive this file's limit.
  const chunks = Array.from({ length: 15_000 }, () => Buffer.alloc(4096, "x"));
  assert.is(split([...chunks, Buffer.from("\n")])[0]?.length, 15_000 * 4096);
});

test("createLineSplitter refuses a line without an end", () => {
  const chunk = Buffer.alloc(16 * 1024 * 1024, "x");
  assert.throws(
    () => split(Array.from({ length: 5 }, () => chunk)),
    /Cannot split the stream into lines: a line has \d+ bytes/,
  );
});

test.run();
