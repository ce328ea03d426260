import { test } from "uvu";
import * as assert from "uvu/assert";
import { createHeadCache } from "../../../crds/snapshots/s3/head-cache.ts";

const headOf = (commit: string) => ({ commit, versions: [] });

test("createHeadCache: a list of one head more than there is room for finds nearly all of them", () => {
  let turns = 0;
  const nextRandom = (): number => {
    turns += 37;
    return (turns % 100) / 100;
  };
  const cache = createHeadCache(100, { random: nextRandom });
  let misses = 0;
  for (let scan = 0; scan < 10; scan += 1) {
    for (let index = 0; index < 101; index += 1) {
      if (cache.get(`head-${index}`, "etag") !== undefined) continue;
      misses += 1;
      cache.put(`head-${index}`, { head: headOf(`${index}`), etag: "etag" });
    }
  }
  assert.ok(misses < 101 + 9 * 20, `${misses} misses`);
});

test("createHeadCache: a head is known by its name and ETag, and takes one place however often it is written", () => {
  const cache = createHeadCache<ReturnType<typeof headOf>>(2);
  for (const etag of ["1", "2", "3"]) cache.put("a", { head: headOf(etag), etag });
  cache.put("b", { head: headOf("b"), etag: "b" });
  assert.equal([cache.get("a", "2"), cache.get("a", "3")?.commit, cache.get("b", "b")?.commit], [undefined, "3", "b"]);
});

test.run();
