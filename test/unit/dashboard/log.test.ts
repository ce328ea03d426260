import { suite } from "uvu";
import * as assert from "uvu/assert";
import { shellWords } from "../../../edge/dashboard/instances/shell-words.ts";
import { createLogLines, type LogLines } from "../../../edge/dashboard/parts/log-lines.ts";

const test = suite("dashboard/log");

const all = (lines: LogLines): string[] => Array.from({ length: lines.count }, (_, at) => lines.line(at));

test("createLogLines joins what comes in pieces, and shows the unfinished line at the end", () => {
  const lines = createLogLines();
  lines.add("one\ntw");
  assert.equal(all(lines), ["one"]);
  lines.add("o\r\n\nthree");
  assert.equal(all(lines), ["one", "two", ""]);
  lines.end();
  assert.equal(all(lines), ["one", "two", "", "three"]);
});

test("createLogLines takes out what orders a terminal about, and shows other control characters", () => {
  const lines = createLogLines();
  lines.add("\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b[2J\n<img src=x onerror=alert(1)>\0\x08\x7f\n10%\r20%\n");
  assert.equal(all(lines), ["red plain", "<img src=x onerror=alert(1)>␀␈␡", "10%␍20%"]);
});

test("createLogLines bounds a line, also one that never ends", () => {
  const lines = createLogLines();
  lines.add(`${"a".repeat(5000)}\n`);
  assert.is(lines.line(0), `${"a".repeat(4096)} … 904 more characters`);
  for (let i = 0; i < 100; i += 1) lines.add("b".repeat(1000));
  assert.is(lines.count, 2);
});

test("createLogLines keeps the newest lines, and finds the same in them", () => {
  const lines = createLogLines(10);
  lines.find("5");
  for (let i = 0; i < 30; i += 1) lines.add(`line ${i}\n`);
  assert.ok(lines.count >= 10 && lines.count <= 12);
  assert.is(lines.dropped + lines.count, 30);
  assert.equal(
    lines.hits?.map((at) => lines.line(at)),
    ["line 25"],
  );
});

test("find looks in what is there and in what comes, in any case; the empty text ends it", () => {
  const lines = createLogLines();
  lines.add("Panic at\nfine\n");
  assert.is(lines.hits, undefined);
  lines.find("PANIC");
  assert.equal(lines.hits, [0]);
  lines.add("no panic\n");
  assert.equal(lines.hits, [0, 2]);
  lines.find("");
  assert.is(lines.hits, undefined);
});

test("shellWords splits as a shell does", () => {
  for (const [line, words] of [
    ["ls -l", ["ls", "-l"]],
    ["  echo\ta  b ", ["echo", "a", "b"]],
    [`echo 'a  b' "c d"e`, ["echo", "a  b", "c de"]],
    [`a '' ""`, ["a", "", ""]],
    [String.raw`a\ b "\"\\\n" 'c\'`, ["a b", String.raw`"\\n`, "c\\"]],
    ["echo $HOME *", ["echo", "$HOME", "*"]],
    ["", []],
  ] as const) {
    assert.equal(shellWords(line), { words }, line);
  }
});

test("shellWords says what is missing", () => {
  assert.equal(shellWords("echo 'a"), { problem: "the quote ' is not closed" });
  assert.equal(shellWords('echo "a'), { problem: 'the quote " is not closed' });
  assert.equal(shellWords("echo \\"), { problem: "nothing follows the backslash" });
});

test.run();
