// @runtimes node bun deno
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { createTurns } from "../../../operator/snapshots/helper/store/turns.ts";
import { createVolumeRecords } from "../../../operator/snapshots/helper/store/volume-records.ts";
import { errorOf } from "../../error-of.ts";
import { call, key, listAll, save } from "../snapshots/store-contract.ts";
import { volumeSuite } from "../snapshots/volume-suite.ts";
import { testUsageStore } from "./usage-store-contract.ts";

const test = volumeSuite<{ usage: UsageStore }>("usage records on the snapshots volume");
const hour = "2026-11-29T10";

test.before.each((context) => {
  context.usage = context.served.usage;
});

testUsageStore(test);

test("no list, count or sweep of archives sees records", async ({ usage, store, root }) => {
  await save(store, "files");
  await usage.append({ hour, name: "a-1", lines: "x\n" }, call);
  await usage.setRecordedUntil(hour, call);
  assert.is((await listAll(store, { versions: true })).length, 1);
  assert.is((await store.usage(call)).archives, 1);
  assert.equal((await store.uses({ limit: 10 }, call)).items.length, 1);
  await store.tidy(call);
  assert.ok(existsSync(join(root, ".usage", hour, "a-1.ndjson")));
});

test("a name that leads elsewhere, a line without an end and a volume that is not mounted are refused", async (context) => {
  const { usage, root } = context;
  const refused = [
    { hour: "..", name: "a-1", lines: "x\n" },
    { hour, name: "..%2f..%2fx", lines: "x\n" },
    { hour, name: "a-1", lines: "x" },
  ];
  for (const batch of refused) assert.instance(await errorOf(usage.append(batch, call)), StoreError);
  assert.equal(readdirSync(root), []);
  rmSync(root, { recursive: true });
  await errorOf(usage.append({ hour, name: "a-1", lines: "x\n" }, call));
  assert.not(existsSync(root));
  mkdirSync(root);
});

test("no records are written, read or deleted on a volume that has no mark, where one was seen with it", async (context) => {
  const { usage, store, root } = context;
  await usage.append({ hour, name: "a-1", lines: "x\n" }, call);
  assert.is((await store.look(key, call)).state, "unmarked");
  context.isMarked = true;
  for (const attempt of [
    () => usage.append({ hour, name: "a-2", lines: "x\n" }, call),
    () => usage.read({ from: hour, to: "2026-11-29T11" }, call)[Symbol.asyncIterator]().next(),
    () => usage.batches(hour, call),
    () => usage.drop({ hour, names: ["a-1"] }, call),
    () => usage.recordedUntil(call),
    () => usage.setRecordedUntil(hour, call),
  ]) {
    assert.match(String(await errorOf(attempt())), /the mark that was on the volume is gone/);
  }
  assert.equal(readdirSync(join(root, ".usage", hour)), ["a-1.ndjson"]);
});

test("a batch that a killed server has not finished is not read", async ({ usage, root }) => {
  await usage.append({ hour, name: "a-1", lines: "x\n" }, call);
  writeFileSync(join(root, ".usage", hour, ".a-2.ndjson.partial"), "y\n");
  let lines = 0;
  for await (const some of usage.read({ from: hour, to: "2026-11-29T11" }, call)) lines += some.length;
  assert.is(lines, 1);
});

test("batches that a merge deletes while they are listed fail no read", async ({ root }) => {
  const volume = createVolumeRecords({ root, turns: createTurns() });
  const names = Array.from({ length: 300 }, (_, index) => `a-${index}`);
  for (const name of names) await volume.addRecords({ hour, name, lines: "x\n" });
  await volume.addRecords({ hour, name: "m-0", lines: "x\n" });
  let isDropped = false;
  const dropped = volume.dropRecords({ hour, names }).finally(() => (isDropped = true));
  while (!isDropped) {
    const { sizeBytes } = await volume.openRecords({ from: hour, to: "2026-11-29T11" });
    assert.ok(sizeBytes >= 2);
  }
  await dropped;
});

test.run();
