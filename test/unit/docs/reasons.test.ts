import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";

const test = suite("docs/reference/reasons.md");

const root = join(import.meta.dirname, "..", "..", "..");
/** Of conditions that hold, and of an error inside the edge. */
const NO_TROUBLE = ["Served", "Valid", "Conflict"];

test("has a row for every reason that operator and gateway give", () => {
  const page = readFileSync(join(root, "docs/reference/reasons.md"), "utf8");
  const rows = new Set(
    [...page.matchAll(/^\| (`\w+`(?:, `\w+`)*)/gm)].flatMap(([, cell = ""]) => cell.match(/\w+/g) ?? []),
  );
  const given = new Set<string>();
  const paths = ["operator", "edge/gateway"].flatMap((folder) =>
    readdirSync(join(root, folder), { encoding: "utf8", recursive: true }).map((path) => join(root, folder, path)),
  );
  for (const path of paths.filter((path) => path.endsWith(".ts"))) {
    const text = readFileSync(path, "utf8");
    for (const [, reason = ""] of text.matchAll(/reason\??: "([A-Z][A-Za-z]+)"/g)) given.add(reason);
    for (const [, union = ""] of text.matchAll(/reason: ((?:"[A-Z]\w+" ?\|? ?)+)/g))
      for (const [, reason = ""] of union.matchAll(/"(\w+)"/g)) given.add(reason);
  }
  assert.ok(given.size > 25, [...given].join());
  assert.equal(
    [...given].filter((reason) => !rows.has(reason) && !NO_TROUBLE.includes(reason)),
    [],
  );
});

test.run();
