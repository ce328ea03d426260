import type { Test } from "uvu";
import * as assert from "uvu/assert";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { mergeBatches } from "../../../operator/usage/merge-batches.ts";
import { errorOf } from "../../error-of.ts";
import { call } from "../snapshots/store-contract.ts";

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
    assert.equal(await usage.batches(hour, call), []);
    for (const name of ["a-1", "a-2", "b-1"]) await usage.append({ hour, name, lines: `${name}\n` }, call);
    await usage.append({ hour: next, name: "a-1", lines: "next\n" }, call);
    assert.equal([...(await usage.batches(hour, call))].sort(), ["a-1", "a-2", "b-1"]);
    await usage.drop({ hour, names: ["a-1", "b-1", "missing-1"] }, call);
    assert.equal(await linesIn(usage, hour, HOURS[2]), ["a-2", "next"]);
  });

  test("merged batches have the same records, and one that is added in between stays", async ({ usage }) => {
    const [hour, next] = HOURS;
    const all: string[] = [];
    for (let batch = 0; batch < 12; batch += 1) {
      const lines = Array.from({ length: 3000 }, (_, line) => `${batch}-${line} ${"x".repeat(100)}`);
      all.push(...lines);
      await usage.append({ hour, name: `a-${batch}`, lines: `${lines.join("\n")}\n` }, call);
    }
    let merged = 0;
    async function append(...given: Parameters<UsageStore["append"]>): Promise<void> {
      await usage.append(...given);
      if (merged === 1) await usage.append({ hour, name: "late-1", lines: "late\n" }, call);
    }
    const nameOf = () => `m-${++merged}`;
    await mergeBatches(hour, { store: { ...usage, append }, nameOf, call });
    assert.ok(merged > 1, String(merged));
    const expected = ["late-1", ...Array.from({ length: merged }, (_, index) => `m-${index + 1}`)].sort();
    assert.equal([...(await usage.batches(hour, call))].sort(), expected);
    assert.equal((await linesIn(usage, hour, next)).sort(), [...all, "late"].sort());
  });

  test("a merge that ends in the middle loses nothing", async ({ usage }) => {
    const [hour, next] = HOURS;
    for (let batch = 0; batch < 12; batch += 1)
      await usage.append({ hour, name: `a-${batch}`, lines: `${batch}\n` }, call);
    let names = 0;
    const killed = { ...usage, drop: () => Promise.reject(new Error("killed")) };
    await errorOf(mergeBatches(hour, { store: killed, nameOf: () => `m-${++names}`, call }));
    await mergeBatches(hour, { store: usage, nameOf: () => `m-${++names}`, call });
    assert.equal(await usage.batches(hour, call), ["m-2"]);
    assert.is(new Set(await linesIn(usage, hour, next)).size, 12);
  });

  test("the hour up to which all is recorded is remembered", async ({ usage }) => {
    assert.is(await usage.recordedUntil(call), undefined);
    for (const hour of HOURS) await usage.setRecordedUntil(hour, call);
    assert.is(await usage.recordedUntil(call), HOURS[2]);
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
