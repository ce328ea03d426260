import { test } from "uvu";
import * as assert from "uvu/assert";
import { triggers } from "../../../crds/kinds.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { TriggerProblem } from "../../../edge/gateway/triggers/trigger-problem.ts";
import { createTriggerStatus } from "../../../edge/gateway/triggers/trigger-status.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { MemoryApi } from "../memory-api.ts";
import { silentLog } from "../silent-log.ts";

const TRIGGER: Trigger = {
  metadata: { name: "t", namespace: "n", uid: "u", generation: 1 },
  spec: { type: "cron", workloadRef: "w", tenant: { static: "a" }, config: { schedule: "* * * * *" } },
};

/** What the status says of the trigger's readiness, by the types of its conditions that hold. */
async function conditionsAfter(
  problem: string | undefined,
  options?: { mayPass: boolean },
  ofWorkload?: TriggerProblem,
): Promise<string[]> {
  const api = new MemoryApi();
  const trigger = api.add(triggers, TRIGGER);
  const present = () => api.read(triggers, "t");
  const status = createTriggerStatus({
    client: api.client,
    ...{ namespace: "n", name: "t", current: present, put: () => undefined },
    workloadProblemOf: () => ofWorkload,
    events: { record: () => undefined },
    ...{ clock: manualClock(), log: silentLog, signal: new AbortController().signal },
  });
  status.write(trigger, problem, options);
  await eventually(() => present().status !== undefined);
  return (present().status?.conditions ?? []).flatMap(({ type, status }) => (status === "True" ? [type] : []));
}

test("only a problem that waits for a person is Stalled", async () => {
  assert.equal(await conditionsAfter(undefined), ["Ready"]);
  assert.equal(await conditionsAfter("its Secret is not there"), ["Stalled"]);
  assert.equal(await conditionsAfter("its messenger is away", { mayPass: true }), ["Reconciling"]);
  const missing = { reason: "WorkloadNotFound", message: "it is not there", mayPass: true } as const;
  assert.equal(await conditionsAfter(undefined, undefined, missing), ["Reconciling"]);
});

test.run();
