// @own-cluster
import { randomBytes } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { makeObjectStore } from "../../unit/snapshots/object-store.ts";
import { call, key, save } from "../../unit/snapshots/store-contract.ts";

const test = suite("the memory that archives in object storage take");
const TOTAL_MIB = 256;
const MOST_MIB = 96;

/** The most that this process has held at any moment, in MiB. */
const mostMemory = (): number => process.resourceUsage().maxRSS / 1024;

test("an archive of any size passes with a few parts in memory", async () => {
  const store = await makeObjectStore({ isMarked: () => false });
  const piece = randomBytes(256 * 1024);
  async function* archive(): AsyncGenerator<Uint8Array> {
    for (let sent = 0; sent < TOTAL_MIB * 4; sent += 1) yield piece;
  }
  await save(store, "small");
  const before = mostMemory();
  const { metadata } = await save(store, archive());
  const opened = await store.open(key, metadata.sha256, call);
  let bytes = 0;
  for await (const read of opened?.content ?? []) bytes += read.length;
  store.close();
  assert.is(bytes, TOTAL_MIB * 1024 ** 2);
  const grown = mostMemory() - before;
  console.log(`note: at most ${grown.toFixed(0)} MiB more for ${TOTAL_MIB} MiB saved and read`);
  assert.ok(grown < MOST_MIB, `${grown} MiB more than before`);
});

test.run();
