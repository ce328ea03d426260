import { test } from "uvu";
import * as assert from "uvu/assert";
import { type MatchedPatterns, readIgnoreFile } from "../../../edge/cli/build/ignore-file.ts";

/** Which of the paths are left out, each looked at from the top down, as the builder does. */
function leftOut(text: string, paths: readonly string[]): string[] {
  const file = readIgnoreFile(text);
  return paths.filter((path) => {
    const parts = path.split("/");
    let seen: { isLeftOut: boolean; matched?: MatchedPatterns } = { isLeftOut: false };
    for (const at of parts.keys()) seen = file.match(parts.slice(0, at + 1).join("/"), seen.matched);
    return seen.isLeftOut;
  });
}

const paths = ["a", "b", "a/b", "a/b/c", "x.md", "a/x.md", "README.md", "é", "a b", ".git/x", "n/node_modules/x"];
// What github.com/moby/patternmatcher v0.6.0 says of the same.
const cases: [text: string, expected: string[]][] = [
  ["", []],
  ["# a\n\n  \n", []],
  ["\ufeffa", ["a", "a/b", "a/b/c", "a/x.md"]],
  ["a\r\nb\r\n", ["a", "b", "a/b", "a/b/c", "a/x.md"]],
  ["  a/  ", ["a", "a/b", "a/b/c", "a/x.md"]],
  ["/a", ["a", "a/b", "a/b/c", "a/x.md"]],
  ["./a/./b", ["a/b", "a/b/c"]],
  ["a/../b", ["b"]],
  ["b", ["b"]],
  ["*/b", ["a/b", "a/b/c"]],
  ["**/b", ["b", "a/b", "a/b/c"]],
  ["a/**", ["a/b", "a/b/c", "a/x.md"]],
  ["a/**/c", ["a/b/c"]],
  ["**", paths],
  ["*", paths],
  ["*.md", ["x.md", "README.md"]],
  ["**/*.md", ["x.md", "a/x.md", "README.md"]],
  ["**/*.md\n!README.md", ["x.md", "a/x.md"]],
  ["!README.md\n**/*.md", ["x.md", "a/x.md", "README.md"]],
  ["a\n!a/b", ["a", "a/x.md"]],
  ["a\n!a/b\na/b/c", ["a", "a/b/c", "a/x.md"]],
  ["*\n!a", ["b", "x.md", "README.md", "é", "a b", ".git/x", "n/node_modules/x"]],
  ["?", ["a", "b", "a/b", "a/b/c", "a/x.md", "é", "n/node_modules/x"]],
  ["[a-b]", ["a", "b", "a/b", "a/b/c", "a/x.md"]],
  ["[^a]", ["b", "é", "n/node_modules/x"]],
  ["a b", ["a b"]],
  ["x\\.md", ["x.md"]],
  [".git\n**/node_modules", [".git/x", "n/node_modules/x"]],
  ["! README.md", []],
  ["x?md-*", []],
];

for (const [text, expected] of cases) {
  test(`readIgnoreFile: ${JSON.stringify(text)}`, () => assert.equal(leftOut(text, paths), expected));
}

for (const text of ["!", "a\n! ", "[a", "a\\", "!/"]) {
  test(`readIgnoreFile refuses ${JSON.stringify(text)}`, () => {
    assert.throws(() => readIgnoreFile(text), /Cannot read \.dockerignore: "[^"]+" (?:has|is) no pattern/);
  });
}

test("readIgnoreFile knows whether a folder that is left out has to be looked into", () => {
  assert.is(readIgnoreFile("a\nb").hasExceptions, false);
  assert.is(readIgnoreFile("a\n!a/b").hasExceptions, true);
});

test.run();
