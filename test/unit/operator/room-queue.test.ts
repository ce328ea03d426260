import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { ApiError } from "../../../crds/client/api-error.ts";
import { pods, resourceQuotas } from "../../../crds/client/built-in-resources.ts";
import { pools, workloads } from "../../../crds/kinds.ts";
import type { Pod, ResourceQuota } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { poolInstanceName } from "../../../crds/names.ts";
import type { Workload } from "../../../crds/workload.ts";
import { podRefusal } from "../../../operator/pod/pod-refusal.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { createPoolController } from "../../../operator/pool/controller.ts";
import { createRoomController, podsToGive } from "../../../operator/room/controller.ts";
import { createRoomLedger } from "../../../operator/room/quota-room.ts";
import { createRoomQueue } from "../../../operator/room/room-queue.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("the queue for room");
const full = { name: "full", resources: ["requests.memory"] };

function stage() {
  const clock = manualClock();
  const queue = createRoomQueue({ onChange: () => undefined, clock });
  let since = 0;
  return {
    ...{ clock, queue },
    enter(tenantId: string, memory: string, { goesOn = false } = {}) {
      since += 1;
      const claim = { metadata: { name: `${tenantId}-${since}`, uid: `${tenantId}-${since}` }, spec: { tenantId } };
      const asked = { pod: podOf(memory), since, now: since, goesOn, isAlone: true };
      return { asked, claim: claim as Claim, place: () => queue.refused(claim as Claim, { ...asked, full }) };
    },
    /** Whose turn it is when a quota has so much left. */
    turns(left: string, held: Record<string, number> = {}, leaving: Pod[] = []) {
      const plan = queue.plan({ quotas: [quotaOf(left)], leaving, instancesOf: (tenantId) => held[tenantId] ?? 0 });
      return plan.turns.map(({ metadata }) => metadata.name);
    },
  };
}

function podOf(memory: string, name = memory): Pod {
  const resources = { requests: { memory } };
  return { metadata: { name, uid: name }, spec: { containers: [{ name: "program", resources }] } } as Pod;
}

function quotaOf(left: string, { scopes }: { scopes?: string[] } = {}): ResourceQuota {
  return {
    metadata: { name: "full" },
    spec: scopes === undefined ? {} : ({ scopes } as ResourceQuota["spec"]),
    status: { hard: { "requests.memory": left }, used: { "requests.memory": "0" } },
  } as ResourceQuota;
}

test("without a queue a claim tries; behind one it waits for its turn, also if there is room", () => {
  const { queue, enter, turns } = stage();
  const [first, second] = [enter("ann", "4Gi"), enter("bob", "1Gi")];
  assert.is(queue.ask(first.claim, first.asked), "now");
  assert.equal(first.place(), { place: 1, size: 1, since: 1, full, againMs: 10_000 });
  assert.equal(queue.ask(second.claim, second.asked), { place: 2, size: 2, since: 2, full, againMs: 10_000 });
  // The larger one does not hold it up.
  queue.roomMade();
  assert.equal(turns("2Gi"), ["bob-2"]);
  assert.is(queue.ask(second.claim, second.asked), "now");
  assert.is.not(queue.ask(first.claim, first.asked), "now");
});

test("the fewest instances first, each turn counts, and a session that goes on comes before all", () => {
  const { queue, enter, turns } = stage();
  for (const tenant of ["ann", "ann", "ann", "bob", "bob"]) enter(tenant, "1Gi").place();
  enter("carl", "1Gi", { goesOn: true }).place();
  queue.roomMade();
  assert.equal(turns("4Gi", { bob: 2, carl: 9 }), ["carl-6", "ann-1", "ann-2", "ann-3"]);
  assert.equal(turns("4Gi", { bob: 2, carl: 9 }), [], "what these take is not given twice");
  for (const uid of ["carl-6", "ann-1", "ann-2", "ann-3"]) queue.leave(uid);
  assert.equal(turns("1Gi"), ["bob-4"]);
});

test("what was refused is tried again when there is more room, or after 15 s; an unused turn is lost after 10 s", async () => {
  const { clock, queue, enter, turns } = stage();
  enter("ann", "1Gi").place();
  // A quota of some pods only shows nothing.
  assert.equal(turns("9Gi"), []);
  await clock.pass(14_999);
  assert.equal(turns("9Gi"), []);
  await clock.pass(1);
  assert.equal(turns("9Gi"), ["ann-1"]);
  await clock.pass(9_999);
  turns("9Gi");
  assert.ok(queue.has("ann-1"));
  await clock.pass(1);
  turns("9Gi");
  assert.not.ok(queue.has("ann-1"));
});

test("pools wait while claims take room, and not for a claim that does not fit", () => {
  const { queue, enter, turns } = stage();
  const [large, small] = [enter("ann", "4Gi"), enter("bob", "1Gi")];
  assert.not.ok(queue.isGiving());
  large.place();
  assert.ok(queue.isGiving(), "before the first plan");
  turns("2Gi");
  assert.not.ok(queue.isGiving());
  queue.roomMade();
  assert.ok(queue.isGiving(), "a claim may fit now");
  turns("2Gi");
  assert.not.ok(queue.isGiving());
  queue.ask(small.claim, small.asked);
  turns("2Gi");
  assert.ok(queue.isGiving(), "a claim has its turn");
  queue.leave("bob-2");
  turns("2Gi");
  queue.makeRoom(true);
  assert.ok(queue.isGiving(), "pods end for one");
  queue.makeRoom(false);
  assert.not.ok(queue.isGiving());
});

test("as few warm pods end as make room, none that do not help, and none for a claim that would not fit even then", () => {
  const spare = [podOf("0", "none"), podOf("1Gi", "a"), podOf("1Gi", "b"), podOf("1Gi", "c")];
  const given = (...pods: Pod[]) => {
    const short = pods.map((pod) => ({ pod, reserve: () => undefined }));
    return podsToGive({ short, ledger: createRoomLedger([quotaOf("1Gi")]) }, spare).map(
      ({ metadata }) => metadata.name,
    );
  };
  assert.equal(given(podOf("2Gi")), ["a"]);
  assert.equal(given(podOf("5Gi")), []);
  assert.equal(given(podOf("5Gi"), podOf("2Gi"), podOf("2Gi")), ["a", "b", "c"]);
});

test("pods that are leaving already are counted", () => {
  const { queue, enter } = stage();
  enter("ann", "2Gi").place();
  const plan = queue.plan({ quotas: [quotaOf("1Gi")], leaving: [podOf("1Gi")], instancesOf: () => 1 });
  assert.equal([plan.turns, plan.short], [[], []]);
});

test("a pool starts no pod from when its pods end for a claim, also where a quota has some room", async () => {
  const { api, context } = testOperator();
  const workload: Workload = api.add(workloads, {
    metadata: { name: "w", generation: 1 },
    spec: { image: { ref: "i:1" }, resources: { memoryMb: 1024 } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  api.add(pools, { metadata: { name: "p", generation: 1 }, spec: { workloadRef: "w", size: 2 } });
  for (const suffix of ["x1", "x2"]) {
    const name = poolInstanceName({ workload: "w", suffix });
    const pod = renderPod(workload, { name, labels: { [label.pool]: "p" }, annotations: {} }, context.config);
    api.add(pods, { ...pod, status: { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] } as never });
  }
  const status = { hard: { "requests.memory": "4Gi" }, used: { "requests.memory": "3Gi" } };
  api.add(resourceQuotas, { metadata: { name: "full" }, spec: {}, status } as ResourceQuota);
  const claim = { metadata: { name: "c", uid: "c" }, spec: { tenantId: "ann", workloadRef: "large" } } as Claim;
  const asked = { pod: podOf("2Gi"), since: 0, now: 0, goesOn: false };
  context.roomQueue.refused(claim, { ...asked, full });
  context.roomQueue.roomMade();
  const { signal } = new AbortController();
  await createRoomController(context).reconcile("", { signal });
  assert.equal(api.verbs(), ["delete"]);
  await createPoolController(context).reconcile("n/p", { signal });
  assert.equal(api.verbs(), ["delete"]);
  context.roomQueue.leave("c");
  await createPoolController(context).reconcile("n/p", { signal });
  assert.ok(api.verbs().includes("create"));
});

test("what ends for a claim is not given to those behind it", () => {
  const { queue, enter } = stage();
  const [large, small] = [enter("ann", "4Gi"), enter("bob", "1Gi")];
  large.place();
  queue.ask(small.claim, { ...small.asked, isAlone: false });
  const plan = (left: string) => queue.plan({ quotas: [quotaOf(left)], leaving: [], instancesOf: () => 0 });
  plan("0").short[0]?.reserve();
  queue.roomMade();
  assert.equal([plan("2Gi").turns, plan("4Gi").turns[0]], [[], large.claim]);
  queue.leave("ann-1");
  assert.equal(plan("1Gi").turns, [small.claim]);
});

test("a claim needs what its workload asks for now", () => {
  const { queue, enter, turns } = stage();
  const { claim, asked, place } = enter("ann", "4Gi");
  place();
  queue.roomMade();
  assert.equal(turns("2Gi"), []);
  assert.is.not(queue.ask(claim, { ...asked, pod: podOf("1Gi") }), "now");
  assert.equal(turns("2Gi"), ["ann-1"]);
});

test("of equal claims that are refused though they seem to fit one tries in a round", () => {
  const { queue, enter, turns } = stage();
  const all = ["ann", "bob", "carl", "dora"].map((tenant) => enter(tenant, "1Gi"));
  for (const { place } of all) place();
  queue.roomMade();
  assert.is(turns("9Gi").length, 4);
  for (const { place } of all) place();
  assert.equal(turns("9Gi"), []);
  queue.roomMade();
  assert.is(turns("9Gi").length, 1);
  all[0]?.place();
  assert.equal(turns("9Gi"), []);
});

test("a place that was told stays for a while when others join", async () => {
  const { clock, enter } = stage();
  const first = enter("ann", "1Gi");
  const said = () => {
    const { place, size } = first.place();
    return [place, size];
  };
  assert.equal(said(), [1, 1]);
  enter("bob", "1Gi").place();
  assert.equal(said(), [1, 2], "it is not in a status yet");
  await clock.pass(5000);
  assert.equal(said(), [1, 2]);
  enter("carl", "1Gi").place();
  assert.equal(said(), [1, 2]);
  await clock.pass(10_000);
  assert.equal(said(), [1, 3]);
});

test("a quota whose use is not counted yet refuses nothing for good, and one that is smaller than the pod does", () => {
  const refusal = (said: string) =>
    podRefusal(new ApiError(`pods "p" is forbidden: ${said}`, { status: 403, reason: "Forbidden" }));
  assert.is(refusal("status unknown for quota: q, resources: pods"), undefined);
  const used = "used: pods=2,requests.memory=3Gi, limited: pods=2,requests.memory=4Gi";
  assert.equal(refusal(`exceeded quota: q, requested: pods=1,requests.memory=2Gi, ${used}`)?.fullQuota, {
    ...{ name: "q", resources: ["pods", "requests.memory"] },
  });
  const larger = refusal(`exceeded quota: q, requested: pods=1,requests.memory=4097Mi, ${used}`);
  assert.equal([larger?.reason, larger?.fullQuota], ["QuotaExceeded", undefined]);
});

test.run();
