import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import { reconcileMember } from "../../../operator/pool/reconcile-member.ts";
import { createRefillPause } from "../../../operator/pool/refill-pause.ts";

const test = suite("reconcileMember");

const readyPod: Pod = {
  metadata: {
    ...{ name: "inst-pool-w-abcdef", namespace: "n", uid: "pod-uid", resourceVersion: "7" },
    labels: { [label.workload]: "w", [label.pool]: "p", [label.poolStatus]: "warming" },
  },
  spec: { containers: [] },
  status: { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] },
};

/** A pool with so many ready pods, and the labels that are written to them. */
function poolOf(ready: number) {
  const labels: unknown[] = [];
  let now = systemClock.now();
  const refillPause = createRefillPause({ now: () => now, after: () => () => undefined });
  const context = {
    refillPause,
    reservedPods: new Set<string>(),
    client: {
      async patch(_resource: unknown, _reference: unknown, { body }: { body: Pod }) {
        labels.push(body.metadata.labels?.[label.poolStatus]);
        return readyPod;
      },
    },
    informers: {
      pools: { store: { get: () => ({ metadata: { name: "p" } }) } },
      pods: { store: { by: () => ({ size: ready }) }, put: () => undefined },
    },
    config: { namespace: "n" },
  };
  const reconcile = () => reconcileMember(readyPod, "p", context as unknown as OperatorContext);
  return { reconcile, refillPause, labels, pass: (ms: number) => (now += ms) };
}

test("a pod that became ready is labelled at once, also where a claim comes now and then", async () => {
  const { reconcile, refillPause, labels } = poolOf(3);
  refillPause.taken("w");
  assert.is(await reconcile(), undefined);
  assert.equal(labels, ["ready"]);
});

test("a pod that a stream of claims reaches in seconds is not labelled while the stream lasts", async () => {
  const { reconcile, refillPause, labels, pass } = poolOf(300);
  for (let count = 0; count < 100; count++) {
    refillPause.taken("w");
    pass(20);
  }
  assert.ok(((await reconcile())?.requeueAfterMs ?? 0) > 0);
  assert.equal(labels, []);
  pass(1000);
  assert.is(await reconcile(), undefined);
  assert.equal(labels, ["ready"]);
});

test.run();
