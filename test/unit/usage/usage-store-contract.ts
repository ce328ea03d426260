import type { Test } from "uvu";
import * as assert from "uvu/assert";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { mergeBatches } from "../../../operator/usage/merge-batches.ts";
import { errorOf } from "../../error-of.ts";
import { call } from "../snapshots/store-contract.ts";
import { usageLines } from "./usage-lines.ts";

const HOURS = ["2026-11-28T23", "2026-11-29T00", "2026-11-30T10"] as const;

/** What a store of usage records does, wherever it keeps them. */
export function testUsageStore<T extends { usage: UsageStore }>(test: Test<T>): void {
  test("records are read by hour, in order, each batch whole", async ({ usage }) => {
    assert.equal(await linesIn(usage, HOURS[0], HOURS[2]), []);
    const [first, second, third] = HOURS;
    await usage.append({ hour: second, name: "b-2", lines: "second\nthird\n" }, call);
    await usage.append({ hour: second, name: "b-1", lines: "first\n" }, call);
    await usage.append({ hour: first, name: "b-3", lines: "ä zero\n" }, call);
    await usage.append({ hour: third, name: "b-4", lines: "last\n" }, call);
    assert.equal(await linesIn(usage, first, third), ["ä zero", "first", "second", "third"]);
    assert.equal(await linesIn(usage, second, "2026-11-30T11"), ["first", "second", "third", "last"]);
  });

  test("a batch that is added again is there once", async ({ usage }) => {
    const [hour] = HOURS;
    for (let times = 0; times < 2; times += 1) await usage.append({ hour, name: "a-1", lines: "once\n" }, call);
    assert.equal(await linesIn(usage, hour, HOURS[1]), ["once"]);
  });

  test("batches of an hour are listed and deleted by name", async ({ usage }) => {
    const [hour, next] = HOURS;
    assert.equal([await usage.hours(call), await usage.batches(hour, call)], [[], []]);
    for (const name of ["a-1", "a-2", "b-1"]) await usage.append({ hour, name, lines: `${name}\n` }, call);
    await usage.append({ hour: next, name: "a-1", lines: "next\n" }, call);
    await usage.setRecordedUntil(next, call);
    assert.equal(await usage.hours(call), [hour, next]);
    assert.equal([...(await usage.batches(hour, call))].sort(), ["a-1", "a-2", "b-1"]);
    await usage.drop({ hour, names: ["a-1", "b-1", "missing-1"] }, call);
    assert.equal(await linesIn(usage, hour, HOURS[2]), ["a-2", "next"]);
    await usage.drop({ hour, names: ["a-2"] }, call);
    assert.equal(await usage.hours(call), [next]);
    await usage.append({ hour, name: "c-1", lines: "again\n" }, call);
    assert.equal(await linesIn(usage, hour, HOURS[2]), ["again", "next"]);
  });

  test("merged batches have the same records, and one that is added in between stays", async ({ usage }) => {
    const [hour, next] = HOURS;
    const all: string[] = [];
    for (let batch = 0; batch < 12; batch += 1) {
      const lines = Array.from({ length: 3000 }, (_, line) => `${batch}-${line} ${"x".repeat(100)}`);
      all.push(...lines);
      await usage.append({ hour, name: `a-${batch}`, lines: `${lines.join("\n")}\n` }, call);
    }
    const merged: string[] = [];
    async function append(...given: Parameters<UsageStore["append"]>): Promise<void> {
      await usage.append(...given);
      merged.push(given[0].name);
      if (merged.length === 1) await usage.append({ hour, name: "late-1", lines: "late\n" }, call);
    }
    await mergeBatches(hour, { store: { ...usage, append }, call });
    assert.ok(merged.length > 1, String(merged.length));
    assert.equal([...(await usage.batches(hour, call))].sort(), ["late-1", ...merged].sort());
    assert.equal((await linesIn(usage, hour, next)).sort(), [...all, "late"].sort());
  });

  test("merges in a store that deletes nothing add each record once, and one that deletes again keeps it once", async ({
    usage,
  }) => {
    const [hour, next] = HOURS;
    const texts = usageLines(
      Array.from({ length: 12 }, (_, index) => ({ tenantId: `t${index}`, from: `${hour}:00:00Z`, seconds: 60 })),
    );
    // Each is in two batches, of one that ended and of one that went on.
    for (const [batch, lines] of texts.entries()) {
      const open = `${JSON.stringify({ ...JSON.parse(lines), end: undefined })}\n`;
      await usage.append({ hour, name: `a-${batch}`, lines: open + lines }, call);
      await usage.append({ hour, name: `b-${batch}`, lines: lines + open }, call);
    }
    const locked = { ...usage, drop: () => Promise.reject(new Error("locked")) };
    // Less than what is there: it is read several times.
    const mostBytes = 1000;
    for (let times = 0; times < 3; times += 1) await errorOf(mergeBatches(hour, { store: locked, call, mostBytes }));
    assert.is((await usage.batches(hour, call)).length, 25);
    await mergeBatches(hour, { store: usage, call, mostBytes });
    const expected = texts.map((lines) => lines.trimEnd()).sort();
    assert.equal(await linesIn(usage, hour, next), expected);
    const [merged] = await usage.batches(hour, call);
    const unused = { ...usage, append: () => Promise.reject(new Error("merged alone")) };
    await mergeBatches(hour, { store: unused, call });
    assert.equal(await usage.batches(hour, call), [merged]);
  });

  test("the hour up to which all is recorded is remembered", async ({ usage }) => {
    assert.is(await usage.recordedUntil(call), undefined);
    for (const hour of HOURS) await usage.setRecordedUntil(hour, call);
    assert.is(await usage.recordedUntil(call), HOURS[2]);
    assert.is(await usage.mark("snapshots", call), undefined);
    await usage.setMark("snapshots", HOURS[0], call);
    await usage.setMark("snapshots-next", HOURS[1], call);
    assert.equal([await usage.mark("snapshots", call), await usage.mark("snapshots-next", call)], HOURS.slice(0, 2));
    assert.equal([await usage.recordedUntil(call), await usage.hours(call)], [HOURS[2], []]);
  });

  test("reading can stop early", async ({ usage }) => {
    const [hour] = HOURS;
    for (let batch = 0; batch < 40; batch += 1)
      await usage.append({ hour, name: `a-${batch}`, lines: "x\n".repeat(2000) }, call);
    for await (const lines of usage.read({ from: hour, to: HOURS[1] }, call)) {
      assert.ok(lines.length > 0);
      break;
    }
    assert.is((await linesIn(usage, hour, HOURS[1])).length, 80_000);
  });

  test("an aborted call ends with its reason", async ({ usage }) => {
    const [hour] = HOURS;
    await usage.append({ hour, name: "a-1", lines: "x\n" }, call);
    const signal = AbortSignal.abort(new Error("gone"));
    const read = async () => await linesIn(usage, hour, HOURS[1], signal);
    assert.is(((await errorOf(read())) as Error).message, "gone");
  });
}

async function linesIn(usage: UsageStore, from: string, to: string, signal = call.signal): Promise<string[]> {
  const lines: string[] = [];
  for await (const some of usage.read({ from, to }, { ...call, signal })) lines.push(...some);
  return lines;
}
