import { test } from "uvu";
import * as assert from "uvu/assert";
import { createProgressLine } from "../../../scripts/test/progress-line.ts";

const CLEARED = "\r\x1b[K";

function terminal(isTTY: boolean) {
  const written: string[] = [];
  return { isTTY, columns: 40, write: (text: string) => written.push(text), written };
}

test("createProgressLine says on a terminal what runs and for how long, below what is printed, no wider than the terminal", () => {
  const screen = terminal(true);
  let now = 0;
  const line = createProgressLine(screen, () => now);
  line.started("test/e2e/a.test.ts");
  now = 2500;
  line.started("test/e2e/b-with-a-name-that-takes-more-than-the-rest");
  line.print("ok a");
  line.ended("test/e2e/b-with-a-name-that-takes-more-than-the-rest");
  line.close();
  assert.equal(screen.written, [
    `${CLEARED}running: a 0 s`,
    `${CLEARED}running: a 2 s, b-with-a-name-that-take`,
    CLEARED,
    "ok a\n",
    `${CLEARED}running: a 2 s, b-with-a-name-that-take`,
    `${CLEARED}running: a 2 s`,
    CLEARED,
  ]);
});

test("createProgressLine writes to a file only what is printed", () => {
  const file = terminal(false);
  const line = createProgressLine(file);
  line.started("a");
  line.print("ok a");
  line.ended("a");
  line.close();
  assert.equal(file.written, ["ok a\n"]);
});

test.run();
