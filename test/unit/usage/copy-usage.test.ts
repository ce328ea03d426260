// @runtimes node bun
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { copyUsage } from "../../../crds/usage/copy-usage.ts";
import type { UsageHour } from "../../../crds/usage/usage-hour.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { sumUsage } from "../../../edge/api/usage/sum-usage.ts";
import { mergeBatches } from "../../../operator/usage/merge-batches.ts";
import { errorOf } from "../../error-of.ts";
import { call } from "../snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { volumeSuite } from "../snapshots/volume-suite.ts";
import { usageLines } from "./usage-lines.ts";

const test = volumeSuite<{ target: ServedStore; from: UsageStore; to: UsageStore }>("copyUsage");
const [first, second] = ["2026-11-29T10", "2026-11-29T11"] as const;
const UNKNOWN = '{"kind":"of a later version"}\n';

test.before.each(async (context) => {
  const root = join(context.folder, "target");
  mkdirSync(root);
  context.target = await serveStore(root);
  [context.from, context.to] = [context.served.usage, context.target.usage];
  for (const hour of [first, second]) {
    const sessions = Array.from({ length: 20 }, (_, index) => ({
      tenantId: `t${index % 5}`,
      ...{ from: `${hour}:00:00Z`, seconds: 60 },
    }));
    for (const [index, lines] of usageLines(sessions).entries())
      await context.from.append({ hour, name: `a-${index}`, lines }, call);
    await context.from.append({ hour, name: "b-1", lines: UNKNOWN }, call);
  }
  await context.from.setRecordedUntil(second, call);
  await context.from.setMark("snapshots", first, call);
  await context.from.setMark("snapshots-next", second, call);
});
test.after.each(({ target }) => target.close());

async function copy(stores: { from: UsageStore; to: UsageStore }, isTargetUnused = false) {
  const outcomes: Record<UsageHour, string> = {};
  const onHour = (hour: UsageHour, outcome: string): void => {
    outcomes[hour] = outcome;
  };
  await copyUsage(stores, { ...call, isTargetUnused, onHour });
  return outcomes;
}

async function billOf(usage: UsageStore) {
  const range = { from: first, to: "2026-11-29T12" };
  const unknown: string[] = [];
  for await (const lines of usage.read(range, call)) unknown.push(...lines.filter((line) => UNKNOWN.includes(line)));
  return { ...(await sumUsage(usage.read(range, call), { by: "tenant", limit: 100 })), unknown };
}

test("the target has the same bills, also from a copy that was cut, and gets nothing twice", async ({ from, to }) => {
  let appends = 0;
  const append: UsageStore["append"] = async (...given) => {
    if (++appends === 2) throw new Error("cut");
    await to.append(...given);
  };
  assert.is(((await errorOf(copy({ from, to: { ...to, append } }))) as Error).message, "cut");
  assert.is(await to.recordedUntil(call), undefined);
  assert.equal(await copy({ from, to }), { [first]: "present", [second]: "copied" });
  const bill = await billOf(from);
  assert.equal([bill.sums.length, bill.unknown.length], [5, 2]);
  assert.equal(await billOf(to), bill);
  assert.equal([await to.recordedUntil(call), await to.mark("snapshots", call)], [second, first]);
  assert.is(await to.mark("snapshots-next", call), second);
  assert.equal(await copy({ from, to }), { [first]: "present", [second]: "present" });

  await mergeBatches(first, { store: from, call });
  const read: UsageStore["read"] = (range, ...rest) => {
    if (range.from === first) throw new Error("a merged hour is read");
    return from.read(range, ...rest);
  };
  assert.equal(await copy({ from: { ...from, read }, to }), { [first]: "present", [second]: "present" });

  const [late = ""] = usageLines([{ tenantId: "late", from: `${second}:30:00Z`, seconds: 60 }]);
  await from.append({ hour: second, name: "c-1", lines: late }, call);
  assert.equal(await copy({ from, to }), { [first]: "present", [second]: "copied" });
  assert.equal((await billOf(to)).sums, (await billOf(from)).sums);
});

test("a target in use keeps its records and its recorded hour, and an unused one never gets an earlier hour", async ({
  from,
  to,
}) => {
  const [own = ""] = usageLines([{ tenantId: "own", from: `${first}:00:00Z`, seconds: 60 }]);
  await to.append({ hour: first, name: "own-1", lines: own }, call);
  await to.setRecordedUntil(first, call);
  await to.setMark("snapshots", "2026-11-29T09", call);
  await copy({ from, to });
  assert.equal([await to.recordedUntil(call), await to.mark("snapshots", call)], [first, "2026-11-29T09"]);
  assert.is(await to.mark("snapshots-next", call), undefined);
  const { sums } = await billOf(to);
  assert.equal([sums.length, sums[0]?.key], [6, "own"]);
  await copy({ from, to }, true);
  assert.is(await to.recordedUntil(call), second);
  await to.setRecordedUntil("2026-11-29T12", call);
  await copy({ from, to }, true);
  assert.is(await to.recordedUntil(call), "2026-11-29T12");
});

test("the sink gets what it lacked at the copy", async ({ from, to }) => {
  const copied = async (sent: UsageHour, isTargetUnused = false) => {
    await from.setMark("sent", sent, call);
    await copy({ from, to }, isTargetUnused);
    return to.mark("sent", call);
  };
  await copy({ from, to });
  assert.is(await to.mark("sent", call), undefined, "the source has no sink");
  assert.is(await copied(first), first);
  assert.is(await copied(second), first, "what the target has got since is not at its sink");
  assert.is(await copied(second, true), second, "an earlier copy");
  assert.is(await copied(first), first);

  await from.setMark("sent", second, call);
  const batches: UsageStore["batches"] = async (...given) => {
    // A record that comes late.
    await from.setMark("sent", first, call);
    return from.batches(...given);
  };
  await copy({ from: { ...from, batches }, to }, true);
  assert.is(await to.mark("sent", call), first);
});

test.run();
