// @runtimes node bun
import { readdirSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import type { UsageRecord } from "../../../crds/usage/usage-record.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { createUsageRecorder, type UsageRecorder } from "../../../operator/usage/usage-recorder.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { call } from "../snapshots/store-contract.ts";
import { volumeSuite } from "../snapshots/volume-suite.ts";

interface Context {
  usage: UsageStore;
  /** Starts one, as a new leader does. */
  lead(options?: Partial<{ at: string; steady: Clock; hasStore: boolean; store: UsageStore }>): UsageRecorder;
  present: Claim[];
  /** Names of claims whose ends were recorded. */
  recorded: string[];
  counts: Record<string, number>;
}

const test = volumeSuite<Context>("usage recorder");
const DAY = "2026-11-29T";

test.before.each((context) => {
  const { served } = context;
  const recorders: UsageRecorder[] = [];
  Object.assign(context, { usage: served.usage, present: [], recorded: [], counts: {} });
  context.lead = ({ at = "10:00:00", steady, hasStore = true, store = served.usage } = {}) => {
    const now = Date.parse(`${DAY}${at}Z`);
    const recorder = createUsageRecorder({
      ...{ store, steady, log: silentLog, retryLimitMs: 86_400_000 },
      clock: { now: () => now, after: () => () => undefined },
      serverNow: () => now,
      mayHaveStore: async () => hasStore,
      claims: () => context.present,
      onRecorded: ({ metadata }) => void context.recorded.push(metadata.name),
      count(result, records) {
        context.counts[result] = (context.counts[result] ?? 0) + records;
      },
    });
    recorders.push(recorder);
    return recorder;
  };
});

function claimOf(name: string, { since, deleted }: { since: string; deleted?: string }): Claim {
  return {
    metadata: {
      ...{ name, namespace: "n", uid: `uid-${name}` },
      ...(deleted !== undefined && { deletionTimestamp: `${DAY}${deleted}Z` }),
    },
    spec: { tenantId: name, workloadRef: "hello" },
    status: {
      ...{ phase: "Active", source: "pool", instanceId: `inst-${name}`, instanceUid: `pod-${name}` },
      ...{ claimedAt: `${DAY}${since}Z`, usageSince: `${DAY}${since}Z` },
      resources: { vcpus: 1, memoryMb: 10 },
    },
  };
}

async function records(usage: UsageStore): Promise<UsageRecord[]> {
  const lines: string[] = [];
  for await (const some of usage.read({ from: "2026-11-29T00", to: "2026-11-30T00" }, call)) lines.push(...some);
  return lines.map((line): UsageRecord => JSON.parse(line));
}

/** For a leader that does not see what the one before it has recorded. */
async function* nothing(): AsyncGenerator<string[]> {
  yield [];
}

/** What was recorded of a session: its ends, its distinct ids, and the seconds of these. */
async function totalOf(usage: UsageStore, name: string) {
  const own = (await records(usage)).filter(({ tenantId }) => tenantId === name);
  const byId = new Map(own.map((record) => [record.id, record]));
  const seconds = [...byId.values()].reduce((sum, { vcpuSeconds }) => sum + vcpuSeconds, 0);
  return { ends: own.filter(({ end }) => end !== undefined).length, ids: byId.size, seconds };
}

test("sessions that end together are written together, each once", async (context) => {
  const recorder = context.lead({ at: "10:00:01" });
  const names = Array.from({ length: 200 }, (_, index) => `t${index}`);
  await Promise.all(names.map((name) => recorder.endUse(claimOf(name, { since: "09:59:59" }), "lost")));
  const all = await records(context.usage);
  assert.is(all.length, 400);
  assert.is(new Set(all.map(({ id }) => id)).size, 400);
  const files = ["09", "10"].flatMap((hour) => readdirSync(join(context.root, ".usage", `2026-11-29T${hour}`)));
  assert.ok(files.length <= 4, files.join(" "));
  await recorder.stop();
});

test("a session that a killed leader has ended does not end again, whatever time it is", async (context) => {
  const claim = claimOf("alice", { since: "10:00:00" });
  context.present = [claim];
  await context.lead({ at: "10:30:00" }).endUse(claim, "lost");
  // Killed here: the claim's status still shows the pod.
  await context.lead({ at: "15:20:00" }).endUse(claim, "lost");
  assert.equal(await totalOf(context.usage, "alice"), { ends: 1, ids: 1, seconds: 1800 });
});

test("a release that a successor records again, later, has the same id", async (context) => {
  const claim = claimOf("alice", { since: "10:00:00", deleted: "10:59:59" });
  for (const at of ["10:59:59.500", "11:00:07"]) {
    const store = { ...context.usage, read: nothing };
    const recorder = context.lead({ at, store });
    assert.not(recorder.endRelease(claim).mayGoOn);
    await eventually(() => recorder.endRelease(claim).mayGoOn);
  }
  const all = await records(context.usage);
  assert.equal([...new Set(all.map(({ id }) => id))], ["uid-alice.pod-alice/2026-11-29T10"]);
  assert.equal([...new Set(all.map(({ to }) => to.slice(11, 19)))].sort(), ["10:59:59", "11:00:00"]);
});

test("whole hours of running sessions are recorded, and a release adds the rest", async (context) => {
  const { usage } = context;
  const alice = claimOf("alice", { since: "07:30:00" });
  const bob = claimOf("bob", { since: "08:30:00", deleted: "09:30:00" });
  const list = async () => context.present;
  const { signal } = call;
  context.present = [alice, bob];
  await context.lead({ at: "10:00:10" }).recordHours("2026-11-29T10", { list, signal });
  assert.equal(await totalOf(usage, "alice"), { ends: 0, ids: 3, seconds: 9000 });
  assert.equal(await totalOf(usage, "bob"), { ends: 0, ids: 1, seconds: 1800 });

  const next = context.lead({ at: "11:00:10" });
  await next.recordHours("2026-11-29T11", { list, signal });
  const before = await records(usage);
  next.endRelease(bob);
  await next.endUse(alice, "lost");
  assert.is((await records(usage)).length, before.length + 2);
  assert.equal(await totalOf(usage, "alice"), { ends: 1, ids: 5, seconds: 12_610 });
  assert.equal(await totalOf(usage, "bob"), { ends: 1, ids: 2, seconds: 3601 });
});

test("a leader that is killed while it records hours leaves them to the next", async (context) => {
  const { usage } = context;
  context.present = [claimOf("alice", { since: "08:00:00" })];
  const list = async () => context.present;
  const dies = { ...usage, setRecordedUntil: async () => Promise.reject(new Error("killed")) };
  await context.lead({ at: "08:00:10" }).recordHours("2026-11-29T08", { list, signal: call.signal });
  const killed = context.lead({ at: "10:00:10", store: dies });
  await killed.recordHours("2026-11-29T10", { list, signal: call.signal }).catch(() => undefined);
  await context.lead({ at: "10:00:20" }).recordHours("2026-11-29T10", { list, signal: call.signal });
  assert.is((await records(usage)).length, 4);
  assert.equal(await totalOf(usage, "alice"), { ends: 0, ids: 2, seconds: 7200 });
});

test("a store that fails holds a release for a minute; the record follows when it works again", async (context) => {
  const steady = manualClock();
  let isDown = true;
  const store: UsageStore = {
    ...context.usage,
    append: async (...given) =>
      isDown ? Promise.reject(new StoreError("down", { isTransient: true })) : context.usage.append(...given),
  };
  const recorder = context.lead({ store, steady });
  const claim = claimOf("alice", { since: "09:00:00", deleted: "09:59:59" });
  assert.equal(recorder.endRelease(claim), { mayGoOn: false, requeueAfterMs: 60_000 });
  // What asks the store is real, and each wait of the recorder begins after its answer.
  for (let waited = 0; waited < 60_000; ) {
    await eventually(() => steady.pending() > 0);
    waited += await steady.runNext();
  }
  assert.ok(recorder.endRelease(claim).mayGoOn);
  recorder.forget(claim);
  isDown = false;
  await eventually(() => steady.pending() > 0);
  await steady.runNext();
  await eventually(() => context.counts.written === 1);
  assert.equal(await totalOf(context.usage, "alice"), { ends: 1, ids: 1, seconds: 3600 });
  assert.equal(context.recorded, []);
});

test("without a store nothing is recorded, and nothing waits", async (context) => {
  const recorder = context.lead({ hasStore: false });
  await recorder.endUse(claimOf("alice", { since: "09:00:00" }), "moved");
  await recorder.recordHours("2026-11-29T10", { list: async () => context.present, signal: call.signal });
  assert.equal(await records(context.usage), []);
});

test("a claim that never was Active has no session", async (context) => {
  const recorder = context.lead();
  const claim = claimOf("alice", { since: "09:00:00", deleted: "09:59:59" });
  const { usageSince: _, ...status } = claim.status ?? { phase: "Pending" };
  assert.ok(recorder.endRelease({ ...claim, status }).mayGoOn);
  await recorder.endUse({ ...claim, status }, "failed");
  assert.equal(await records(context.usage), []);
});

test("a claim that goes on with its pod after the recorded end has a new use from there, also under a successor", async (context) => {
  const { usage } = context;
  const claim = claimOf("alice", { since: "10:00:00" });
  const { signal } = call;
  context.present = [claim];
  const first = context.lead({ at: "10:30:00" });
  assert.is(first.beginsAgainAt(claim), undefined);
  await first.endUse(claim, "lost");
  // The write of the status fails here, and the pod's node is back.
  assert.is(first.beginsAgainAt(claim), Date.parse(`${DAY}10:30:00Z`));
  const next = context.lead({ at: "10:40:00" });
  context.recorded.length = 0;
  await next.recordHours("2026-11-29T10", { list: async () => context.present, signal });
  assert.equal(context.recorded, ["alice"]);
  const again = next.beginsAgainAt(claim) ?? Number.NaN;
  assert.is(again, Date.parse(`${DAY}10:30:00Z`));

  const { status } = claim;
  assert.ok(status);
  const present = { ...claim, status: { ...status, usageSince: new Date(again).toISOString() } };
  context.present = [present];
  assert.is(next.beginsAgainAt(present), undefined);
  const last = context.lead({ at: "12:10:00" });
  await last.recordHours("2026-11-29T12", { list: async () => context.present, signal });
  await last.endUse(present, "lost");
  assert.equal(await totalOf(usage, "alice"), { ends: 2, ids: 4, seconds: 7800 });
});

test("old hours are deleted, but none of which sessions or archives are not recorded yet", async (context) => {
  const { usage } = context;
  for (const hour of ["05", "06", "07", "08"])
    await usage.append({ hour: `${DAY}${hour}`, name: "a-1", lines: "x\n" }, call);
  await usage.setRecordedUntil(`${DAY}07`, call);
  await usage.setMark("snapshots", `${DAY}06`, call);
  const recorder = context.lead();
  const drop = () => recorder.dropBefore(`${DAY}08`, call.signal);
  assert.equal([await drop(), await drop()], [[`${DAY}05`], []]);
  await usage.setMark("snapshots", `${DAY}09`, call);
  assert.equal(await drop(), [`${DAY}06`]);
  assert.equal(await usage.hours(call), [`${DAY}07`, `${DAY}08`]);
  await recorder.stop();
});

test.run();
