import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Pod } from "../../../crds/kubernetes.ts";
import { createFailureRecord } from "../../../operator/pool/pool-failures.ts";
import { manualClock } from "../manual-clock.ts";

/** A record of the pool `p`, on a clock that `pass` moves, and the pods that there are. */
function stage() {
  const clock = manualClock();
  let changes = 0;
  const pods = new Map<string, Pod>();
  const record = createFailureRecord({
    clock,
    onChange: () => {
      changes += 1;
    },
  });
  return {
    record,
    changes: () => changes,
    put(name: string, { ready = true, restartCount = 0 } = {}) {
      const pod = {
        metadata: { name, namespace: "n", uid: name },
        spec: { containers: [] },
        status: {
          podIP: "10.0.0.1",
          conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
          containerStatuses: [{ name: "workload", image: "i", restartCount }],
        },
      } as unknown as Pod;
      pods.set(`n/${name}`, pod);
      return pod;
    },
    delete: (name: string) => pods.delete(`n/${name}`),
    review: () => record.review("p", (key) => pods.get(key)),
    pass: (ms: number) => clock.set(clock.now() + ms),
  };
}

test("FailureRecord: the second failure degrades a pool, and each is told of", () => {
  const { record, changes } = stage();
  record.failed("p", "one");
  assert.is(record.isDegraded("p"), false);
  record.failed("p", "two");
  assert.is(record.isDegraded("p"), true);
  assert.equal([record.get("p")?.count, record.get("p")?.message, changes()], [2, "two", 2]);
});

test("FailureRecord: a pod that stays ready for 10 s ends it, one that is ready for a moment does not", () => {
  const { record, put, review, pass } = stage();
  record.failed("p", "one");
  record.failed("p", "two");
  record.started("p", put("a"));
  assert.is(review(), 10_000);
  pass(4000);
  put("a", { ready: false, restartCount: 0 });
  assert.is(review(), 10_000);
  pass(10_000);
  // Ready again, after a restart that no review has seen.
  put("a", { restartCount: 1 });
  assert.is(review(), 10_000);
  pass(9999);
  assert.is(review(), 1);
  assert.is(record.isDegraded("p"), true);
  pass(1);
  assert.is(review(), undefined);
  assert.is(record.get("p"), undefined);
});

test("FailureRecord: what started before the last failure shows nothing, and neither does a pod that is gone", () => {
  const { record, put, review, pass, ...pods } = stage();
  record.failed("p", "one");
  record.started("p", put("a"));
  record.failed("p", "two");
  pass(10_000);
  assert.is(review(), undefined);
  record.started("p", put("b"));
  pods.delete("b");
  pass(10_000);
  assert.is(review(), undefined);
  assert.is(record.isDegraded("p"), true);
});

test("FailureRecord: goes on from what another operator has found", () => {
  const { record, put, review, pass } = stage();
  record.resume("p", "found before");
  assert.is(record.isDegraded("p"), true);
  assert.is(record.get("p")?.message, "found before");
  record.started("p", put("a"));
  pass(10_000);
  assert.is(review(), undefined);
  assert.is(record.get("p"), undefined);
});

test("FailureRecord: a pool without failures remembers no pods", () => {
  const { record, put, review, changes } = stage();
  record.started("p", put("a"));
  record.forget("p");
  assert.equal([review(), changes()], [undefined, 0]);
});

test.run();
