// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isTenantId } from "../../../crds/names.ts";
import { hourAt, isUsageHour } from "../../../crds/usage/usage-hour.ts";
import { countedRecord, recordsOf, type UsageRecord, type UsageSession } from "../../../crds/usage/usage-record.ts";
import { parseRecord } from "../../../crds/usage/usage-store.ts";
import { RECORDS_FOLDER } from "../../../operator/snapshots/helper/store/volume-records.ts";

const test = suite("usage records");
const at = (time: string): number => Date.parse(`2026-11-29T${time}Z`);
const session: UsageSession = {
  ...{ id: "claim.pod", tenantId: "alice", workload: "hello", labels: { team: "a" }, source: "pool" },
  ...{ since: at("10:59:30.500"), vcpus: 2, memoryMb: 512 },
};

test("a session has one record for each hour, which add up to its use; the last one has its end", () => {
  const to = at("12:00:10.250");
  const records = [...recordsOf(session, { first: hourAt(session.since), to, end: "released" })];
  assert.equal(
    records.map(({ id, from, to: until, end }) => [id, from.slice(11), until.slice(11), end]),
    [
      ["claim.pod/2026-11-29T10", "10:59:30.500Z", "11:00:00.000Z", undefined],
      ["claim.pod/2026-11-29T11", "11:00:00.000Z", "12:00:00.000Z", undefined],
      ["claim.pod/2026-11-29T12", "12:00:00.000Z", "12:00:10.250Z", "released"],
    ],
  );
  const sum = (field: "vcpuSeconds" | "mibSeconds") => records.reduce((all, record) => all + record[field], 0);
  assert.is(sum("vcpuSeconds"), (2 * (to - session.since)) / 1000);
  assert.is(sum("mibSeconds"), (512 * (to - session.since)) / 1000);
  for (const record of records) assert.equal(parseRecord(JSON.stringify(record)), record);
});

test("hours that are recorded are left out, but never the end", () => {
  const ids = (first: string, to: number) =>
    [...recordsOf(session, { first, to, end: "lost" })].map(({ id, end }) => `${id.slice(-2)}${end ?? ""}`);
  assert.equal(ids("2026-11-29T12", at("12:30:00")), ["12lost"]);
  assert.equal(ids("2026-11-29T13", at("12:00:00")), ["11lost"]);
  assert.equal(ids("2026-11-29T00", session.since - 5), ["10lost"]);
  const running = [...recordsOf(session, { first: "2026-11-29T10", to: at("12:00:00") })];
  assert.equal(
    running.map(({ id, end }) => [id.slice(-2), end]),
    [
      ["10", undefined],
      ["11", undefined],
    ],
  );
});

test("of two records with one id, an end counts, else the shorter one, in either order", () => {
  const [whole] = recordsOf(session, { first: "2026-11-29T10", to: at("11:00:00") });
  const [early, late] = ["10:59:40", "10:59:50"].map(
    (to) => [...recordsOf(session, { first: "2026-11-29T10", to: at(to), end: "lost" })][0],
  );
  const counted = (a: UsageRecord | undefined, b: UsageRecord | undefined) => {
    assert.ok(a && b);
    assert.is(countedRecord(a, b), countedRecord(b, a));
    return countedRecord(a, b);
  };
  assert.is(counted(whole, late), late);
  assert.is(counted(early, late), early);
});

test("no tenant id is the name of the records' folder, and only whole hours name one", () => {
  assert.not(isTenantId(RECORDS_FOLDER));
  assert.ok(isUsageHour("2026-11-29T14"));
  for (const wrong of ["2026-11-29", "2026-11-29T24", "2026-02-30T00", "../2026-11-29T14", "2026-11-29T14/x", ""])
    assert.not(isUsageHour(wrong), wrong);
});

test("an end of a later version is one", () => {
  const [record] = recordsOf(session, { first: "2026-11-29T10", to: at("10:59:40"), end: "released" });
  const later = { ...record, end: "of-a-later-version" };
  assert.equal(parseRecord(JSON.stringify(later)), later);
});

test("a line that is no record, or of an unknown kind, is no record", () => {
  for (const line of ["", "x", "{}", '{"kind":"snapshot"}', "null"]) assert.is(parseRecord(line), undefined);
});

test.run();
