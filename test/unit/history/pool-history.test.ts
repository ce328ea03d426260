import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import type { Change } from "../../../crds/client/watch/informer.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { Pool } from "../../../crds/pool.ts";
import { poolIndex, poolPlace } from "../../../edge/cluster/slim-pod.ts";
import { createPoolHistory, type PoolHour } from "../../../edge/history/pool-history.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("pool history");

/** Pods of pools, whose changes the history is told after they are stored. */
function world(workloads: Record<string, string[]> = {}) {
  const clock = manualClock("2026-01-01T00:00:00Z");
  const pods = new Map<string, Pod>();
  const isAt = (pod: Pod, value: string) => {
    const place = poolPlace(pod);
    return place !== undefined && poolIndex(place) === value;
  };
  const cache = {
    pods: {
      store: { by: (_: "pool", value: string) => new Set([...pods.values()].filter((pod) => isAt(pod, value))) },
    },
    pools: {
      store: {
        by: (_: "workload", name: string) =>
          (workloads[name] ?? []).map((pool) => ({ metadata: { name: pool } }) as Pool),
      },
    },
  };
  const history = createPoolHistory({ cache: () => cache, now: clock.now });
  const put = (
    name: string,
    pool: string | undefined,
    status = "ready",
    more: { going?: true; claimed?: true } = {},
  ) => {
    const previous = pods.get(name);
    const object = {
      metadata: {
        name,
        // Under load the label `pool-status` stays behind.
        labels: { ...(pool !== undefined && { [label.pool]: pool, [label.poolStatus]: "warming" }) },
        annotations: { ...(more.claimed && { [annotation.claimUid]: "u" }) },
        ...(more.going && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
      },
      spec: { containers: [] },
      status: { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: status === "ready" ? "True" : "False" }] },
    } as Pod;
    pods.set(name, object);
    history.onPod(previous === undefined ? { type: "added", object } : { type: "modified", object, previous });
  };
  const drop = (name: string) => {
    const previous = pods.get(name) as Pod;
    pods.delete(name);
    history.onPod({ type: "deleted", object: previous, previous });
  };
  const claim = (workloadRef: string, status: Partial<ClaimStatus>, previous?: Partial<ClaimStatus>) => {
    const of = (one: Partial<ClaimStatus>) =>
      ({ metadata: { name: "c" }, spec: { workloadRef }, status: one }) as Claim;
    const change = { type: "modified", object: of(status), previous: of(previous ?? { phase: "Pending" }) };
    history.onClaim(change as Change<Claim>);
  };
  const after = (seconds: number) => clock.set(clock.now() + seconds * 1000);
  return { clock, pods, history, put, drop, claim, after };
}

const last = (hour: PoolHour) =>
  Object.fromEntries(Object.entries(hour).map(([name, value]) => [name, Array.isArray(value) ? value.at(-1) : value]));

test("a burst that empties a pool for less than a bucket shows, as hits and as the lowest depth", () => {
  const { history, put, after } = world();
  for (const name of ["a", "b", "c"]) put(name, "p");
  after(10);
  for (const name of ["a", "b", "c"]) put(name, undefined, "", { claimed: true });
  for (const name of ["d", "e", "f"]) put(name, "p", "warming");
  for (const name of ["d", "e"]) put(name, "p", "ready");
  assert.equal(history.read("p"), {
    from: Date.parse("2026-01-01T00:00:00Z"),
    ready: [3, 2],
    lowest: [0, 0],
    warming: [0, 1],
    refilled: [3, 2],
    hits: [0, 3],
    misses: [0, 0],
  });
});

test("buckets without a change hold what the one before held, and nothing counts twice", () => {
  const { history, put, after } = world();
  put("a", "p");
  put("a", "p");
  after(35);
  const { ready, lowest, refilled } = history.read("p");
  assert.equal(
    [ready, lowest, refilled],
    [
      [1, 1, 1, 1],
      [0, 1, 1, 1],
      [1, 0, 0, 0],
    ],
  );
  put("a", "p", "ready", { going: true });
  assert.equal(history.read("p").ready, [1, 1, 1, 0]);
  after(10);
});

test("a pool of which nothing was heard held all the time what it holds now, also once something is", () => {
  const { history, pods, put, drop, after } = world();
  put("a", "p");
  put("b", "p");
  // Those were there before the history began.
  const later = world();
  for (const [name, pod] of pods) later.pods.set(name, pod);
  later.after(25);
  assert.equal(later.history.read("p").ready, [2, 2, 2]);
  assert.equal(later.history.read("none").ready, [0, 0, 0]);
  later.drop("a");
  assert.equal(later.history.read("p").ready, [2, 2, 1]);
  assert.equal(later.history.read("p").lowest, [2, 2, 1]);
  assert.equal(later.history.read("p").hits, [0, 0, 0]);
  drop("a");
  after(1);
  assert.equal(history.read("p").ready, [1]);
});

test("a claim that gets a cold pod is a miss of its workload's pools, once", () => {
  const { history, claim } = world({ app: ["p", "q"] });
  const cold = { phase: "Active", source: "cold+data", claimedAt: "2026-01-01T00:00:01Z" } as const;
  claim("app", cold);
  claim("app", { ...cold, message: "changed" }, cold);
  claim("other", cold);
  claim("app", { ...cold, source: "pool" });
  claim("app", { phase: "Error", source: "cold" });
  assert.equal([last(history.read("p")).misses, last(history.read("q")).misses], [1, 1]);
  claim("app", { ...cold, claimedAt: "2026-01-01T00:05:00Z" }, cold);
  assert.is(last(history.read("p")).misses, 2);
});

test("an hour is kept and no more, also after a long pause and when the clock goes back", () => {
  const { history, put, after, clock } = world();
  put("a", "p");
  after(3600 - 10);
  assert.is(history.read("p").refilled.length, 360);
  assert.is(history.read("p").refilled[0], 1);
  after(10);
  const { refilled, ready, from } = history.read("p");
  assert.equal([refilled.length, refilled.includes(1), ready.includes(0)], [360, false, false]);
  assert.is(from, Date.parse("2026-01-01T00:00:10Z"));
  after(86_400);
  put("b", "p");
  const { ready: after24 } = history.read("p");
  assert.equal([after24.length, after24[0], after24.at(-1)], [360, 1, 2]);
  clock.set(clock.now() - 7200_000);
  put("c", "p");
  assert.is(history.read("p").ready.at(-1), 3);
  assert.is(history.read("p").ready.length, 360);
});

test("at most 256 pools are kept; of one that went, the time before is not invented", () => {
  const { history, put, after } = world();
  put("first", "first");
  after(60);
  for (let count = 0; count < 255; count += 1) put(`pod-${count}`, `pool-${count}`);
  assert.is(history.read("first").ready.length, 7);
  after(60);
  put("more", "pool-more");
  const from = Date.parse("2026-01-01T00:02:00Z");
  assert.equal(history.read("first"), {
    ...{ from, ready: [1], lowest: [1], warming: [0], refilled: [0], hits: [0], misses: [0] },
  });
  assert.is(history.read("pool-1").ready.length, 13);
});

test.run();
