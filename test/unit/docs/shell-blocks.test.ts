import { suite } from "uvu";
import * as assert from "uvu/assert";
import { docPages, RUN_PAGES, shellBlocks } from "../../doc-blocks.ts";

const test = suite("shell blocks of the pages");

test("each is run by test/e2e/docs/pages.test.ts, or says why not", () => {
  const blocks = docPages().flatMap(shellBlocks);
  assert.ok(blocks.length > 50, `${blocks.length}`);
  const isRun = (page: string) => RUN_PAGES.some((run) => run === page);
  const silent = blocks.filter(({ page, notRun }) => notRun === undefined && !isRun(page));
  assert.equal(
    silent.map(({ page, line }) => `${page}:${line}: write <!-- not run: REASON --> before the block`),
    [],
  );
});

test("of each page that is run there is a block to run", () => {
  const without = RUN_PAGES.filter((page) => shellBlocks(page).every(({ notRun }) => notRun !== undefined));
  assert.equal(without, []);
});

test.run();
