import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/** What docs/reference/e2b.md says of the methods of a class of E2B's SDK for JavaScript. */
export interface MethodRow {
  readonly works: readonly string[];
  readonly refused: readonly string[];
}

/** The rows of the page, by class. */
export function methodRows(): ReadonlyMap<string, MethodRow> {
  const page = readFileSync(join(root, "docs/reference/e2b.md"), "utf8");
  const [, table = ""] = /\n## Methods of the SDKs\n[^#]*?\n\| --- \| --- \| --- \|\n((?:\|.*\n)+)/.exec(page) ?? [];
  const words = (cell = "") => [...cell.matchAll(/`(\w+)`/g)].map(([, word = ""]) => word);
  return new Map(
    table
      .trim()
      .split("\n")
      .map((line) => {
        const [, name, works, refused] = line.split("|");
        return [words(name)[0] ?? "", { works: words(works), refused: words(refused) }];
      }),
  );
}
