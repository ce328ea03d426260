import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Workload } from "../../../crds/workload.ts";
import { createBuildTurns, isQueued } from "../../../operator/builds/build-turns.ts";
import { manualClock } from "../manual-clock.ts";

function queued(uid: string, status: Partial<NonNullable<Workload["status"]>> = {}): Workload {
  return {
    metadata: { name: uid, uid },
    spec: { image: { dockerfile: "Dockerfile" } },
    status: { phase: "Building", build: { key: "k", state: "Pending", reason: "Queued" }, ...status },
  };
}

test("isQueued: who waits for a turn; one that is refused or goes waits no longer", () => {
  assert.ok(isQueued(queued("a")));
  assert.ok(isQueued(queued("a", { phase: "Ready" })));
  assert.not.ok(isQueued(queued("a", { phase: "Error" })));
  assert.not.ok(isQueued(queued("a", { build: { state: "Building" } })));
  const going = queued("a");
  assert.not.ok(isQueued({ ...going, metadata: { ...going.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } }));
});

test("createBuildTurns: one that asks no longer keeps nobody waiting", async () => {
  const clock = manualClock();
  const turns = createBuildTurns({ clock });
  turns.asks(queued("asks"));
  assert.ok(turns.waits(queued("asks")));
  // A former leader's, which has not asked this one yet.
  assert.ok(turns.waits(queued("former")));
  await clock.pass(45_000);
  turns.asks(queued("asks"));
  await clock.pass(45_000);
  assert.ok(turns.waits(queued("asks")));
  assert.not.ok(turns.waits(queued("former")));
  await clock.pass(30_000);
  assert.not.ok(turns.waits(queued("asks")));
});

test.run();
