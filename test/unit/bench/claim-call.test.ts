import { test } from "uvu";
import * as assert from "uvu/assert";
import { claimCall, createTally } from "../../../scripts/bench/load/claim-call.ts";
import type { LoadClient } from "../../../scripts/bench/load/load-client.ts";

function edgeThat(answer: () => { status: number; text: string }): LoadClient {
  return { call: async () => answer(), open: async () => undefined, close: () => undefined };
}

const claim = { tenantId: "alice", workload: "hello" };
const active = { phase: "Active", instanceId: "inst-1", source: "pool" };

test("claimCall: an Active claim is answered, with its source and pod", async () => {
  const edge = edgeThat(() => ({ status: 201, text: JSON.stringify(active) }));
  assert.equal(await claimCall(edge, claim), { kind: "answered", source: "pool", instanceId: "inst-1" });
});

test("claimCall: every other answer, and none, is a failure", async () => {
  const answers = [
    () => ({ status: 504, text: JSON.stringify({ error: "not ready" }) }),
    () => ({ status: 201, text: JSON.stringify({ ...active, phase: "Pending" }) }),
    () => ({ status: 201, text: "not JSON" }),
    () => {
      throw new Error("ECONNRESET");
    },
  ];
  for (const answer of answers) assert.is((await claimCall(edgeThat(answer), claim)).kind, "failed");
});

test("claimCall: reasons that differ in names alone are one reason", async () => {
  const fail = (name: string) => () => ({ status: 500, text: JSON.stringify({ error: `pod "${name}" is gone` }) });
  assert.equal(await claimCall(edgeThat(fail("a")), claim), await claimCall(edgeThat(fail("b")), claim));
});

test("createTally: failed claims are infinite samples, and an answer by another way is missed", () => {
  const tally = createTally("pool");
  tally.add({ kind: "answered", source: "pool", instanceId: "a" }, 10);
  tally.add({ kind: "answered", source: "cold", instanceId: "b" }, 90);
  tally.add({ kind: "failed", why: "504" }, 30_000);
  tally.add({ kind: "failed", why: "504" }, 5);
  const { samplesMs, missed, failures } = tally.outcome;
  assert.equal(samplesMs, [10, 90, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
  assert.is(missed, 1);
  assert.equal(failures, { 504: 2 });
  assert.equal([...tally.instanceIds], ["a", "b"]);
});

test.run();
