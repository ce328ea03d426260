import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLogReader } from "../../../scripts/bench/audit-log.ts";

const test = suite("createLogReader");
const folder = mkdtempSync(join(tmpdir(), "tenancy-log-reader-"));
test.after(() => rmSync(folder, { recursive: true }));

test("gives whole lines, each once; the rest of a line comes with its end", () => {
  const path = join(folder, "audit.log");
  const log = createLogReader(path);
  assert.is(log.next(), "");
  appendFileSync(path, "one\ntwo\nthr");
  assert.is(log.next(), "one\ntwo\n");
  assert.is(log.next(), "");
  appendFileSync(path, "ée\nfour\n");
  assert.is(log.next(), "thrée\nfour\n");
});

test.run();
