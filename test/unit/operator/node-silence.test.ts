import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Pod, PodCondition } from "../../../crds/kubernetes.ts";
import { createNodeSilence } from "../../../operator/pod/node-silence.ts";

const test = suite("node silence");
const at = "2026-01-01T00:00:00Z";
const containersReady: PodCondition = { type: "ContainersReady", status: "True", lastTransitionTime: at };

function pod(conditions: PodCondition[], metadata: Partial<Pod["metadata"]> = {}): Pod {
  return { metadata: { name: "inst-a", uid: "u", ...metadata }, spec: { containers: [] }, status: { conditions } };
}

const left = (lastTransitionTime = at) =>
  pod([{ type: "Ready", status: "False", lastTransitionTime }, containersReady]);

function silence(): { leftMs: (pod: Pod) => number | undefined; pass: (ms: number) => void } {
  let now = 0;
  const { leftMs } = createNodeSilence({ limitMs: 60_000, now: () => now });
  return {
    leftMs,
    pass(ms) {
      now += ms;
    },
  };
}

test("a pod that is unready although its containers are ready counts as left after the limit, from the first look", () => {
  const { leftMs, pass } = silence();
  assert.is(leftMs(left()), 60_000);
  pass(59_999);
  assert.is(leftMs(left()), 1);
  pass(10_000);
  assert.is(leftMs(left()), 0);
});

test("the count starts over when the node answered in between, seen or not", () => {
  const { leftMs, pass } = silence();
  leftMs(left());
  pass(50_000);
  assert.is(leftMs(pod([{ type: "Ready", status: "True" }, containersReady])), undefined);
  assert.is(leftMs(left()), 60_000);
  pass(50_000);
  assert.is(leftMs(left("2026-01-01T00:01:00Z")), 60_000);
});

test("a pod that its kubelet calls unready has a node that answers", () => {
  const { leftMs } = silence();
  for (const reason of ["ContainersNotReady", "ReadinessGatesNotReady", "PodCompleted"])
    assert.is(leftMs(pod([{ type: "Ready", status: "False", reason }, containersReady])), undefined, reason);
  assert.is(leftMs(pod([{ type: "Ready", status: "False" }])), undefined);
  assert.is(leftMs(pod([])), undefined);
});

test("a deleted pod is left when its grace period and the limit have passed and it is still there", () => {
  const { leftMs, pass } = silence();
  const going = pod([], { deletionTimestamp: at, deletionGracePeriodSeconds: 10 });
  assert.is(leftMs(going), 70_000);
  pass(70_000);
  assert.is(leftMs(going), 0);
});

test.run();
