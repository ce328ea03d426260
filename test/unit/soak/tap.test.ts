import { test } from "uvu";
import * as assert from "uvu/assert";
import { createTap, type Disturbance } from "../../../scripts/soak/systematic/tap.ts";

const PODS = "/api/v1/namespaces/tenancy/pods";

function tapWith(disturbance: Disturbance) {
  const done: string[] = [];
  const tap = createTap({
    async crash() {
      done.push("killed");
      return async () => void done.push("started");
    },
    hold: (plural, isHeld) => void done.push(`${isHeld ? "hold" : "deliver"} ${plural}`),
    relist: (plural) => void done.push(`relist ${plural}`),
    onTrouble(error) {
      throw error;
    },
  });
  const traffic = tap.follow("run1x", disturbance);
  const write = (method: string, path: string, body = '{"name":"run1x"}') => tap.onWritten({ method, path, body });
  const event = (type: string, plural: string, uid = "u1") =>
    tap.onEvent(plural, Buffer.from(`${JSON.stringify({ type, object: { metadata: { name: "run1x", uid } } })}\n`));
  return { done, traffic, write, event };
}

test("createTap: kills the operator after the n-th write of the run and withholds the answer", async () => {
  const { done, traffic, write } = tapWith({ kind: "crash", what: "PATCH pods", nth: 2 });
  const answers = [
    await write("PATCH", `${PODS}/run1x`),
    await write("PATCH", `${PODS}/run1x/status`),
    await write("PATCH", `${PODS}/other`, "{}"),
    await write("PUT", "/apis/coordination.k8s.io/v1/namespaces/tenancy/leases/run1x"),
    await write("PATCH", `${PODS}/run1x`),
    await write("PATCH", `${PODS}/run1x`),
  ];
  assert.equal(answers, [false, false, false, false, true, false]);
  assert.equal(done, ["killed", "started"]);
  assert.equal(traffic.writes, ["PATCH pods", "PATCH pods/status", "PATCH pods", "PATCH pods"]);
});

test("createTap: a doubled event comes twice, and the others once", () => {
  const { event } = tapWith({ kind: "twice", what: "MODIFIED pods", nth: 2 });
  assert.equal(
    [event("MODIFIED", "pods"), event("MODIFIED", "services"), event("MODIFIED", "pods"), event("MODIFIED", "pods")],
    [1, 1, 2, 1],
  );
});

test("createTap: a late event holds its watches until eight others have passed", () => {
  const { done, event } = tapWith({ kind: "late", what: "ADDED pods", nth: 1 });
  assert.is(event("ADDED", "pods"), 1);
  for (let count = 0; count < 7; count += 1) event("MODIFIED", "services");
  assert.equal(done, ["hold pods"]);
  event("MODIFIED", "services");
  assert.equal(done, ["hold pods", "deliver pods"]);
});

test("createTap: a lost event is listed again, unless a later one of its object came", () => {
  for (const [uid, expected] of [
    ["u2", ["relist pods"]],
    ["u1", []],
  ] as const) {
    const { done, event } = tapWith({ kind: "lost", what: "DELETED pods", nth: 1 });
    assert.is(event("DELETED", "pods"), 0);
    for (let count = 0; count < 8; count += 1) event("MODIFIED", "pods", uid);
    assert.equal(done, expected);
  }
});

test.run();
