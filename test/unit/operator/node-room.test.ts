import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Pod, PodSpec } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { createNodeRoom, stuckIndex } from "../../../operator/room/node-room.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("room on nodes");

function podOf(name: string, cpu: string, spec: Partial<PodSpec> = {}): Pod {
  const containers = [{ name: "program", resources: { requests: { cpu } } }];
  return { metadata: { name, uid: name }, spec: { containers, ...spec } } as Pod;
}

function stuck(cpu: string, message: string, spec: Partial<PodSpec> = {}): Pod {
  const pod = podOf(`stuck-${cpu}`, cpu, spec);
  pod.metadata.annotations = { [annotation.claimUid]: "u" };
  pod.status = { conditions: [{ type: "PodScheduled", status: "False", message }] } as Pod["status"] & object;
  return pod;
}

const SHORT = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.";
const tainted = { tolerations: [{ key: "gpu", operator: "Exists" }] };
const onNodes = [
  podOf("a-1", "1", { nodeName: "a" }),
  podOf("b-1", "500m", { nodeName: "b" }),
  podOf("a-2", "1", { nodeName: "a" }),
  podOf("b-2", "2", { nodeName: "b" }),
  podOf("c-1", "8", { nodeName: "c", ...tainted }),
];

test("the fewest pods of one node that use as much as the pod, and those without a node, which would come first", () => {
  const given = (pod: Pod, spare = onNodes) =>
    createNodeRoom()
      .plan([pod], spare)
      .map(({ metadata }) => metadata.name);
  assert.equal(given(stuck("1", SHORT)), ["a-1"]);
  assert.equal(given(stuck("2500m", SHORT)), ["b-1", "b-2"]);
  assert.equal(given(stuck("3", SHORT)), [], "two nodes together have it");
  assert.equal(given(stuck("8", SHORT, tainted)), ["c-1"]);
  assert.equal(given(stuck("8", SHORT)), [], "another workload's pods run on other nodes");
  const own = { affinity: { podAntiAffinity: {} } };
  assert.equal(given(stuck("1", SHORT, own)), [], "where others run decides");
  const unplaced = [podOf("unplaced", "1"), podOf("elsewhere", "1", tainted)];
  assert.equal(given(stuck("1", SHORT), [...onNodes, ...unplaced]), ["a-1", "unplaced"]);
  assert.equal(given(stuck("9", "0/3 nodes are available: 3 Too many pods.")), ["a-1"]);
});

test("only pods of claims for which something is short", () => {
  assert.is(stuckIndex(stuck("1", SHORT)), "");
  assert.is(stuckIndex(stuck("1", "0/3 nodes are available: 3 node(s) had untolerated taint(s).")), undefined);
  assert.is(stuckIndex(podOf("warm", "1")), undefined);
});

test("pools wait for 30 s at most, and pods end three times for one that gets no node all the same", async () => {
  const clock = manualClock();
  const room = createNodeRoom(clock);
  const pod = stuck("1", SHORT);
  for (const name of ["a-1", "a-1", "a-1"]) {
    assert.equal(
      room.plan([pod], onNodes).map(({ metadata }) => metadata.name),
      [name],
    );
    assert.equal(room.plan([pod], onNodes), []);
    assert.ok(room.isHeld());
    await clock.pass(30_000);
    assert.not.ok(room.isHeld());
  }
  assert.equal(room.plan([pod], onNodes), []);
  room.plan([], onNodes);
  assert.is(room.plan([pod], onNodes).length, 1, "it had a node in between");
});

test.run();
