import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { lastSeconds } from "../../../scripts/test/last-seconds.ts";

test("lastSeconds keeps the figures of runs that it is told of, and those of others", () => {
  const folder = mkdtempSync(join(tmpdir(), "last-seconds-test-"));
  const path = join(folder, "cache", "seconds.json");
  const first = lastSeconds(path);
  assert.is(first.get("a"), undefined);
  first.keep(new Map([["a", 3]]));
  const second = lastSeconds(path);
  assert.is(second.get("a"), 3);
  first.keep(new Map([["b", 4]]));
  second.keep(new Map([["a", 5]]));
  const third = lastSeconds(path);
  assert.equal([third.get("a"), third.get("b")], [5, 4]);
  rmSync(folder, { recursive: true });
});

test.run();
