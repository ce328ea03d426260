import { test } from "uvu";
import * as assert from "uvu/assert";
import { triggers } from "../../../crds/kinds.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { TriggerProblem } from "../../../edge/gateway/triggers/trigger-problem.ts";
import { createTriggerEvents, createTriggerStatus } from "../../../edge/gateway/triggers/trigger-status.ts";
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
    ...{ cluster: api.cluster, name: "t", current: present },
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

test("a container that words a thousand errors has few Events a minute, and other triggers have theirs", async () => {
  const clock = manualClock();
  const recorded: string[] = [];
  const recorder = { record: ({ message }: { message: string }) => void recorded.push(message) };
  const events = createTriggerEvents({ recorder, clock });
  const triggerOf = (uid: string): Trigger => ({
    metadata: { name: uid, uid },
    spec: { type: "cron", workloadRef: "app", tenant: { static: "a" }, config: {} },
  });
  const fail = (uid: string, message: string) =>
    events.record(triggerOf(uid), { type: "Warning", reason: "EventFailed", message });
  for (let count = 0; count < 1000; count += 1) fail("loud", `error ${count}`);
  assert.equal(recorded, ["error 0", "error 1", "error 2", "error 3", "error 4"]);
  fail("other", "theirs");
  events.record(triggerOf("loud"), { type: "Normal", reason: "EventDenied", message: "denied" });
  assert.equal(recorded.splice(0).slice(5), ["theirs", "denied"]);
  await clock.pass(59_999);
  fail("loud", "error 0");
  fail("other", "theirs");
  assert.equal(recorded, []);
  await clock.pass(1);
  fail("loud", "later");
  fail("other", "theirs");
  assert.equal(recorded, ["later", "theirs"]);
});

test.run();
