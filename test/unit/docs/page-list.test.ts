import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { allPages, pageList } from "../../../scripts/docs/pages.ts";
import { docPages } from "../../doc-blocks.ts";

const test = suite("lists of the pages for machines");

const root = join(import.meta.dirname, "../../..");
const written = docPages().filter((page) => /^docs\/(?:tutorial|how-to|reference|explanation)\//.test(page));

test("llms.txt: is what npm run docs writes", () => {
  assert.is(readFileSync(join(root, "llms.txt"), "utf8"), pageList(root), "run npm run docs");
});

test("allPages: has every page", () => {
  const text = allPages(root);
  assert.ok(written.length > 30, `${written.length}`);
  assert.equal(
    written.filter((page) => !text.includes(readFileSync(join(root, page), "utf8"))),
    [],
  );
});

test("each page begins with one sentence that says for whom it is", () => {
  const text = pageList(root);
  const without = written.filter((page) => !text.includes(`](${page}): This page is for `));
  assert.equal(without, []);
});

test("docs/README.md: leads to each page", () => {
  const index = readFileSync(join(root, "docs/README.md"), "utf8");
  assert.equal(
    written.filter((page) => !index.includes(`](${page.slice("docs/".length)})`)),
    [],
  );
});

test.run();
