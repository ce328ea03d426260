import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { RecordedEvent } from "../../../crds/client/event-recorder.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import { startPod } from "../../../operator/claim/start-pod.ts";
import { createPoolEvents } from "../../../operator/pool/pool-events.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("a claim that finds its pool empty");

function emptyPools(...names: string[]) {
  const clock = manualClock();
  const events: RecordedEvent[] = [];
  const poolEvents = createPoolEvents({ events: { record: (event) => void events.push(event) }, clock });
  const { api, context } = testOperator({ poolEvents });
  api.add(workloads, {
    metadata: { name: "w", uid: "w-uid", generation: 1 },
    spec: { image: { ref: "i:1" } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  for (const name of names) api.add(pools, { metadata: { name }, spec: { workloadRef: "w", size: 1 } });
  let count = 0;
  return {
    poolEvents,
    pass: (ms: number) => clock.set(clock.now() + ms),
    events: () => events.map(({ object, reason }) => `${object.metadata.name} ${reason}`),
    async claim() {
      count += 1;
      const claim: Claim = { metadata: { name: `c${count}` }, spec: { tenantId: `t${count}`, workloadRef: "w" } };
      await startPod(api.add(claims, claim), context);
    },
    misses: async () => (await context.metrics.poolClaims.get()).values.find(({ labels }) => labels.result === "miss"),
  };
}

test("one Event a pool in five minutes, however many claims do, and each counts in the metric", async () => {
  const { claim, events, misses, pass } = emptyPools("p", "q");
  for (let count = 0; count < 20; count += 1) await claim();
  assert.equal(events(), ["p PoolEmpty", "q PoolEmpty"]);
  assert.is((await misses())?.value, 20);
  pass(299_999);
  await claim();
  assert.is(events().length, 2);
  pass(1);
  await claim();
  assert.is(events().length, 4);
});

test("a pool that is made again under its name has Events of its own", async () => {
  const { claim, events, poolEvents } = emptyPools("p");
  await claim();
  poolEvents.forget("p");
  await claim();
  assert.is(events().length, 2);
});

test.run();
