import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findPlainWords } from "../../../scripts/lint/plain-words.ts";

const test = suite("plain words");

const root = join(import.meta.dirname, "../../..");

test("finds a word, and a shape that goes over a line", () => {
  const found = findPlainWords("It is safe.\n// Whoever waits finds one such\n// as are there, made anew.");
  assert.equal(
    found.map(({ line, words }) => `${line}: ${words}`),
    ["2: Whoever", "2: such // as are", "3: anew"],
  );
  assert.equal(findPlainWords("anyone who waits; neither of them; a mendable one; `let-in`"), []);
});

test("README.md, CONTRIBUTING.md and docs/ have none of the words", () => {
  const pages = readdirSync(join(root, "docs"), { encoding: "utf8", recursive: true })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`);
  const found = ["README.md", "CONTRIBUTING.md", ...pages].flatMap((page) =>
    findPlainWords(proseOf(readFileSync(join(root, page), "utf8"))).map(
      ({ line, words, instead }) => `${page}:${line}: "${words}": ${instead}`,
    ),
  );
  assert.equal(found, []);
});

/** The text without code and link targets; lines keep their numbers. */
function proseOf(text: string): string {
  return text
    .replace(/^ *```[\s\S]*?^ *```/gm, (block) => block.replace(/[^\n]+/g, ""))
    .replace(/`[^`\n]+`/g, "``")
    .replace(/\]\([^)\s]+\)/g, "]()");
}

test.run();
