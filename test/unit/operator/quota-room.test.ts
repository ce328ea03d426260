import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ResourceQuota } from "../../../crds/kubernetes.ts";
import { amountOf, hasMoreRoom } from "../../../operator/room/quota-room.ts";

const test = suite("hasMoreRoom");

const quota = (hard: Record<string, string>, used: Record<string, string> = {}): ResourceQuota => ({
  metadata: { name: "q" },
  status: { hard, used },
});
const changed = (previous: ResourceQuota, object: ResourceQuota) => hasMoreRoom({ type: "modified", object, previous });

test("a limit that was raised or taken away, and a use that fell", () => {
  const before = quota({ pods: "9", "requests.cpu": "2" }, { pods: "9", "requests.cpu": "1500m" });
  assert.ok(changed(before, quota({ pods: "10", "requests.cpu": "2" }, before.status?.used)));
  assert.ok(changed(before, quota({ "requests.cpu": "2" }, before.status?.used)));
  assert.ok(changed(before, quota(before.status?.hard ?? {}, { pods: "9", "requests.cpu": "1" })));
  assert.ok(changed(before, quota({ pods: "10", "requests.cpu": "1" }, before.status?.used)), "one of two");
});

test("none: less, as much in other words, a new limit, and what is there at the start", () => {
  const before = quota({ pods: "9", "requests.memory": "1Gi" }, { pods: "5", "requests.memory": "0" });
  assert.not.ok(changed(before, quota(before.status?.hard ?? {}, { pods: "6", "requests.memory": "512Mi" })));
  assert.not.ok(changed(before, quota({ pods: "9", "requests.memory": "1024Mi" }, before.status?.used)));
  assert.not.ok(changed(before, quota({ ...before.status?.hard, services: "1" }, before.status?.used)));
  assert.not.ok(hasMoreRoom({ type: "added", object: before }));
  assert.not.ok(changed({ metadata: { name: "q" } }, before), "its first status");
});

test("a quota that is gone", () => {
  assert.ok(hasMoreRoom({ type: "deleted", object: quota({ pods: "1" }) }));
});

test("amountOf: every form of a quantity", () => {
  const table: Record<string, number> = {
    "0": 0,
    "10": 10,
    "1.5": 1.5,
    "-1": -1,
    "1500m": 1.5,
    "2k": 2000,
    "1E": 1e18,
  };
  for (const [text, value] of Object.entries({ ...table, "1e3": 1000, "1Ki": 1024, "3Gi": 3 * 1024 ** 3, "1M": 1e6 }))
    assert.is(amountOf(text), value, text);
  for (const text of ["", "x", "1 Gi", "1Xi", "Gi"]) assert.ok(Number.isNaN(amountOf(text)), text);
});

test.run();
