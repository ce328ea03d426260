import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods, resourceQuotas } from "../../../crds/client/built-in-resources.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import type { Pool, PoolSpec, PoolStatus } from "../../../crds/pool.ts";
import { startPod } from "../../../operator/claim/start-pod.ts";
import { startWatches } from "../../../operator/controller.ts";
import { createPoolController, createPoolStatusController } from "../../../operator/pool/controller.ts";
import { createPoolSizes } from "../../../operator/pool/pool-sizes.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("a pool that scales by itself");

const SECOND = 1000;

function scaling(spec: Partial<PoolSpec>, status?: Partial<PoolStatus>) {
  const clock = manualClock("2026-11-30T12:00:00Z");
  const changed: string[] = [];
  const poolSizes = createPoolSizes({ onChange: (pool) => changed.push(pool), clock });
  const { api, context, events } = testOperator({ poolSizes, serverNow: clock.now });
  api.add(workloads, {
    metadata: { name: "w", uid: "w-uid", generation: 1 },
    spec: { image: { ref: "i:1" } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  const object: Pool = { metadata: { name: "p", generation: 1 }, spec: { workloadRef: "w", ...spec } };
  api.add(pools, { ...object, ...(status && { status: { phase: "Ready", ready: 0, warming: 0, ...status } }) });
  const controllers = [createPoolController(context), createPoolStatusController(context)] as const;
  startWatches(controllers, { add: () => undefined });
  const signal = new AbortController().signal;
  let count = 0;
  return {
    ...{ api, context, events, changed, clock },
    pass: (seconds: number) => clock.set(clock.now() + seconds * SECOND),
    reconcile: () => controllers[0].reconcile("n/p", { signal }),
    /** The size and its reason after a run of both controllers. */
    async now() {
      await controllers[0].reconcile("n/p", { signal });
      await controllers[1].reconcile("n/p", { signal });
      const { status: written } = api.read(pools, "p");
      return `${written?.desired} ${written?.scaling?.reason}`;
    },
    writes: () => api.calls.filter(({ verb, kind }) => verb === "patch" && kind === "tenancypools").length,
    pods: () => api.all(pods).length,
    arrive(ageSeconds = 0) {
      count += 1;
      const creationTimestamp = new Date(clock.now() - ageSeconds * SECOND).toISOString();
      const metadata = { name: `c${count}`, uid: `c${count}`, creationTimestamp };
      return api.add(claims, { metadata, spec: { tenantId: `t${count}`, workloadRef: "w" } });
    },
  };
}

test("starts minSize pods, grows when claims miss it, within a run, and says so once", async () => {
  const { now, pods: started, arrive, context, changed, events } = scaling({ maxSize: 4 });
  assert.is(await now(), "1 MinSize");
  assert.is(started(), 1);
  changed.length = 0;
  for (let nth = 0; nth < 3; nth += 1) await startPod(arrive(), context);
  assert.ok(changed.includes("p"), "no pod changes, so the miss itself starts the run");
  assert.is(await now(), "3 Arrivals");
  const told = () => events.filter(({ reason }) => reason === "GrownByMiss").map(({ type }) => type);
  assert.equal(told(), ["Normal"]);
  const misses = (await context.metrics.poolMisses.get()).values.map(({ labels, value }) => [labels.pool, value]);
  assert.equal(misses, [["p", 3]]);
  for (let nth = 0; nth < 3; nth += 1) await startPod(arrive(), context);
  assert.is(await now(), "4 MaxSize");
  assert.equal(
    events.filter(({ reason }) => reason === "MaxSizeReached").map(({ type }) => type),
    ["Warning"],
  );
  assert.is(told().length, 1);
});

test("a claim that waits for a starting pod is a miss, counted once", async () => {
  const { now, arrive, context } = scaling({ maxSize: 4 });
  await now();
  const claim = arrive();
  await startPod(claim, context);
  await startPod(claim, context);
  assert.is(context.poolSizes.arrivals.missesOf("w"), 1);
});

test("a new leader keeps the size for scaleDownAfterSeconds, and the measured refill time", async () => {
  const scalingBefore = { reason: "Arrivals", message: "m", needed: 7, minSize: 1, arrivalsPerMinute: 3 };
  const status = { desired: 7, observedGeneration: 1, scaling: { ...scalingBefore, refillSeconds: 4 } };
  const { now, pass, reconcile, api } = scaling({ maxSize: 20, scaleDownAfterSeconds: 100 }, status);
  assert.is(await now(), "7 ScaleDownLater");
  assert.is(api.read(pools, "p").status?.scaling?.refillSeconds, 4);
  pass(98);
  assert.equal(await reconcile(), { requeueAfterMs: 2000 });
  pass(1.9);
  assert.is(await now(), "7 ScaleDownLater");
  pass(1);
  assert.is(await now(), "1 MinSize");
  pass(1);
  assert.is(await reconcile(), undefined);
});

test("a new leader counts the claims of the last hour that are there, and no change of a claim", async () => {
  const { now, arrive, api, context } = scaling({ maxSize: 20 });
  for (const age of [100, 100, 100, 4000]) arrive(age);
  const claim = arrive(100);
  const edited = { ...claim, metadata: { ...claim.metadata, labels: { edited: "yes" } } };
  api.add(claims, edited);
  assert.is(await now(), "4 Arrivals");
  api.add(claims, { ...edited, metadata: { ...edited.metadata, annotations: { [annotation.attempt]: "2" } } });
  const counts = context.poolSizes.arrivals.read("w") ?? new Uint16Array();
  assert.is(counts.at(-1), 1, "a claim that is tried again arrives again");
});

test("the status is written for a new size or reason, not for each claim", async () => {
  const { now, arrive, writes, pass } = scaling({ maxSize: 20 });
  for (let nth = 0; nth < 5; nth += 1) arrive();
  await now();
  const before = writes();
  for (let nth = 0; nth < 10; nth += 1) {
    pass(60);
    arrive();
    assert.is(await now(), "5 Arrivals");
  }
  assert.is(writes(), before);
});

test("claims that find a warm pod change the size once a second, and a miss at once", async () => {
  const { now, arrive, pass, reconcile, context } = scaling({ maxSize: 20, minSize: 0 });
  assert.is(await now(), "0 MinSize");
  for (let nth = 0; nth < 3; nth += 1) arrive();
  assert.is(await now(), "0 MinSize");
  pass(0.4);
  assert.equal(await reconcile(), { requeueAfterMs: 600 });
  await startPod(arrive(), context);
  assert.is(await now(), "4 Arrivals");
  arrive();
  assert.is(await now(), "4 Arrivals");
  pass(1);
  assert.is(await now(), "5 Arrivals");
});

test("a quota limits it before the API server refuses pods, and more room lets it grow", async () => {
  const { now, arrive, api, changed, events } = scaling({ maxSize: 20 });
  const quota = (used: string) => ({
    metadata: { name: "q" },
    status: { hard: { pods: "10" }, used: { pods: used } },
  });
  api.add(resourceQuotas, quota("7"));
  for (let nth = 0; nth < 9; nth += 1) arrive();
  assert.is(await now(), "3 QuotaRoom");
  changed.length = 0;
  api.add(resourceQuotas, quota("5"));
  assert.ok(changed.includes("p"));
  assert.equal(
    events.filter(({ type }) => type === "Warning"),
    [],
  );
});

test("a schedule takes effect at its time, by a timer", async () => {
  const schedule = [{ cron: "30 12 * * *", minSize: 6 }];
  const { now, reconcile, pass, api } = scaling({
    maxSize: 9,
    schedule: [...schedule, { cron: "0 9 * * *", minSize: 2 }],
  });
  assert.is(await now(), "2 Schedule");
  pass(1);
  assert.equal(await reconcile(), { requeueAfterMs: 1799 * SECOND });
  pass(1799);
  assert.is(await now(), "6 Schedule");
  assert.is(api.read(pools, "p").status?.scaling?.minSize, 6);
});

test("a schedule that cannot be parsed is said, and ignored", async () => {
  const { now, api } = scaling({ maxSize: 9, schedule: [{ cron: "0 0 30 2 *", minSize: 6 }] });
  assert.is(await now(), "1 ScheduleInvalid");
  assert.match(
    api.read(pools, "p").status?.scaling?.message ?? "",
    /^spec\.schedule\[0\] is ignored: .* never matches/,
  );
});

test("a pool that gets a fixed size has it at once, and no reason", async () => {
  const { now, api } = scaling({ maxSize: 9, minSize: 5 });
  assert.is(await now(), "5 MinSize");
  const pool = api.read(pools, "p");
  api.add(pools, { ...pool, metadata: { ...pool.metadata, generation: 2 }, spec: { workloadRef: "w", size: 2 } });
  assert.is(await now(), "2 undefined");
});

test("a pool of fixed size that begins to scale keeps its size for scaleDownAfterSeconds", async () => {
  const { now, api, pass } = scaling({ size: 6 });
  assert.is(await now(), "6 undefined");
  const pool = api.read(pools, "p");
  api.add(pools, { ...pool, metadata: { ...pool.metadata, generation: 2 }, spec: { workloadRef: "w", maxSize: 9 } });
  assert.is(await now(), "6 ScaleDownLater");
  pass(600);
  assert.is(await now(), "1 MinSize");
});

test.run();
