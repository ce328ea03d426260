// @runtimes node bun
import * as assert from "uvu/assert";
import { countedRecord, type SnapshotRecord } from "../../../crds/usage/usage-record.ts";
import { parseRecord, type UsageStore } from "../../../crds/usage/usage-store.ts";
import { mergeBatches } from "../../../operator/usage/merge-batches.ts";
import { createStorageRecorder } from "../../../operator/usage/record-storage.ts";
import { errorOf } from "../../error-of.ts";
import { call, save } from "../snapshots/store-contract.ts";
import { type OnVolume, volumeSuite } from "../snapshots/volume-suite.ts";

const test = volumeSuite("recorded space of archives");
const hour = (of: number): string => `2026-11-29T${String(of).padStart(2, "0")}`;
const keyOf = (index: number) => ({ tenantId: `t${index}`, workloadRef: `w${index % 2}` });

/** A leader of a new term. */
function lead({ served, store }: OnVolume, { mostRecords = 10_000, usage = served.usage, isLeading = true } = {}) {
  const options = { archives: store, usage, mostRecords, pageKeys: 3, isLeading: () => isLeading };
  return createStorageRecorder({ ...options, mayHaveStore: async () => true });
}

/** The records, each id once. */
async function recordsIn({ served }: OnVolume): Promise<SnapshotRecord[]> {
  const byId = new Map<string, SnapshotRecord>();
  for await (const lines of served.usage.read({ from: hour(0), to: "2026-11-30T00" }, call)) {
    for (const record of lines.flatMap((line) => parseRecord(line) ?? [])) {
      assert.is(record.kind, "snapshot");
      byId.set(record.id, countedRecord(byId.get(record.id) ?? record, record) as SnapshotRecord);
    }
  }
  return [...byId.values()];
}

const spans = (records: readonly SnapshotRecord[], tenantId: string) =>
  records
    .filter((record) => record.tenantId === tenantId)
    .map(({ from, to, byteHours }) => [from.slice(11, 13), to.slice(8, 13), byteHours])
    .sort();

test("each tenant's archives of a workload have a record an hour, with all versions, the same content once", async (stage) => {
  const { store, served } = stage;
  const [first, second] = [keyOf(0), keyOf(1)];
  for (const [at, content] of ["aaaa", "bb", "aaaa"].entries())
    await save(store, content, first, { keep: "history", most: { history: 9 }, createdAt: `2026-11-2${at}T00:00:00Z` });
  await save(store, "cccccccc", second);
  const recorder = lead(stage);
  assert.is(await recorder.record(hour(10), call.signal), hour(11));
  assert.equal(await recordsIn(stage), []);
  assert.is(await recorder.record(hour(11), call.signal), hour(12));
  assert.is(await recorder.record(hour(11), call.signal), hour(12));
  assert.equal(spans(await recordsIn(stage), "t0"), [["10", "29T11", 6]]);
  assert.equal(spans(await recordsIn(stage), "t1"), [["10", "29T11", 8]]);
  assert.is(await served.usage.mark("snapshots", call), hour(11));
});

test("with many archives a record covers more hours of a day, and an hour has its share of them", async (stage) => {
  for (let index = 0; index < 40; index += 1) await save(stage.store, "x", keyOf(index));
  const recorder = lead(stage, { mostRecords: 15 });
  await recorder.record(hour(17), call.signal);
  const next: string[] = [];
  for (const now of [hour(18), hour(20), hour(21), hour(22), "2026-11-30T00"])
    next.push(await recorder.record(now, call.signal));
  assert.equal(next, [hour(19), hour(21), hour(22), "2026-11-30T00", "2026-11-30T01"]);
  const records = await recordsIn(stage);
  for (let index = 0; index < 40; index += 1) {
    assert.equal(spans(records, `t${index}`), [
      ["17", "29T18", 1],
      ["18", "29T21", 3],
      ["21", "30T00", 3],
    ]);
  }
  for (const of of [18, 19, 20]) assert.ok(records.filter(({ id }) => id.endsWith(hour(of))).length < 40);
});

test("operators that are killed after any write record each hour once, with the least that they found", async (stage) => {
  for (let index = 0; index < 8; index += 1) await save(stage.store, "x", keyOf(index));
  await stage.served.usage.setMark("snapshots", hour(9), call);
  for (let killedAfter = 1; ; killedAfter += 1) {
    assert.ok(killedAfter < 100, "no leader records all");
    let writes = 0;
    // The write is done, and its answer never comes.
    const dying =
      <T extends unknown[]>(write: (...given: T) => Promise<void>) =>
      async (...given: T): Promise<void> => {
        if (writes >= killedAfter) throw new Error("killed");
        await write(...given);
        writes += 1;
        if (writes === killedAfter) throw new Error("killed");
      };
    const { append, setMark, ...usage } = stage.served.usage;
    const store: UsageStore = { ...usage, append: dying(append), setMark: dying(setMark) };
    // Each finds another number of archives, so it would take other hours.
    const recorder = lead(stage, { usage: store, mostRecords: 1 + (killedAfter % 5) });
    await save(stage.store, "x".repeat(killedAfter + 1), keyOf(0), { keep: "replaced" });
    const failed = await errorOf(recorder.record(hour(12), call.signal));
    if (failed === undefined && (await stage.served.usage.mark("snapshots", call)) === hour(12)) break;
  }
  const records = await recordsIn(stage);
  const hoursOf = (index: number) =>
    spans(records, `t${index}`).reduce((sum, [, , byteHours]) => sum + Number(byteHours), 0);
  for (let index = 1; index < 8; index += 1) assert.is(hoursOf(index), 3, `t${index}`);
  for (const of of [9, 10, 11]) await mergeBatches(hour(of), { store: stage.served.usage, call });
  assert.equal((await recordsIn(stage)).map(({ id }) => id).sort(), records.map(({ id }) => id).sort());
});

test("nothing is recorded of days without a leader, and nothing by one that leads no more", async (stage) => {
  await save(stage.store, "x", keyOf(0));
  await stage.served.usage.setMark("snapshots", "2026-11-20T00", call);
  assert.instance(await errorOf(lead(stage, { isLeading: false }).record(hour(10), call.signal)), Error);
  const recorder = lead(stage);
  for (let times = 0; times < 24; times += 1) await recorder.record(hour(10), call.signal);
  assert.is(await stage.served.usage.mark("snapshots", call), hour(10));
  assert.is((await recordsIn(stage)).length, 10);
});

test.run();
