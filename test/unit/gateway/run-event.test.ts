// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import { claims } from "../../../crds/kinds.ts";
import { exportRequest } from "../../../crds/tracing/otlp-json.ts";
import type { Tracer } from "../../../crds/tracing/tracer.ts";
import type { Trigger, TriggerSpec } from "../../../crds/trigger.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { createFindLivePod } from "../../../edge/cluster/live-pod.ts";
import type { IncomingEvent } from "../../../edge/gateway/adapter.ts";
import { createDeliveryLog } from "../../../edge/gateway/delivery-log.ts";
import { type Driver, type DriverCall, DriverError, PodGoneError } from "../../../edge/gateway/drivers/driver.ts";
import { createEventSlots } from "../../../edge/gateway/events/event-slots.ts";
import { createEventRunner } from "../../../edge/gateway/events/run-event.ts";
import type { Guard } from "../../../edge/gateway/guards.ts";
import { createReleaseHolds } from "../../../edge/release-hold.ts";
import { eventually } from "../../eventually.ts";
import { FakeCluster, NAMESPACE } from "../edge/fake-cluster.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { createRecorder } from "../tracing/recorder.ts";

const test = suite("createEventRunner");
const event: IncomingEvent = { id: "e1", fields: { who: "a" }, data: { who: "a" }, receivedAt: "2026-01-01T00:00:00Z" };
const never = new AbortController().signal;
const reply = { status: 200, contentType: "text/plain", body: new Uint8Array(), text: "hi" };

function active(port = 1): ClaimStatus {
  return { phase: "Active", instanceId: `inst-${port}`, endpoint: { host: "10.0.0.1", port }, source: "cold" };
}

function testEnvironment(options: {
  driver?: Driver;
  guards?: Guard[];
  spec?: Partial<TriggerSpec>;
  readToken?: () => Promise<string>;
  /** What the operator answers to a claim that was created. */
  operator?: (cluster: FakeCluster) => void;
  claimWaitMs?: number;
  drainMs?: number;
  /** What a pod's word of events in flight waits for. */
  announcing?: Promise<void>;
  /** Of the times between looks at a claim. */
  steady?: Clock;
  tracer?: Tracer;
}) {
  const cluster = new FakeCluster();
  cluster.addWorkload("app");
  const calls: DriverCall[] = [];
  const results: string[] = [];
  const events: string[] = [];
  const busy: string[] = [];
  const announced: string[] = [];
  const hardStop = new AbortController();
  const trigger: Trigger = {
    metadata: { name: "t", uid: "u", namespace: NAMESPACE },
    spec: { type: "webhook", workloadRef: "app", tenant: { from: "who" }, config: {}, ...options.spec },
  };
  const deliveryLog = createDeliveryLog();
  const slots = createEventSlots({ perTenant: 2, perTrigger: 3, inAll: 4, maxWaiting: 18 });
  const run = createEventRunner(
    {
      trigger,
      guards: options.guards ?? [],
      driver: async (call) => {
        calls.push(call);
        return options.driver?.(call) ?? reply;
      },
      readToken: options.readToken,
    },
    {
      claims: {
        cluster: cluster.cluster,
        namespace: NAMESPACE,
        cache: cluster.cache,
        waiters: cluster.waiters,
        findLivePod: createFindLivePod({ cluster: cluster.cluster }),
        clock: systemClock,
        timeOfDay: systemClock.now,
        tracer: options.tracer,
        randomId: () => "attempt",
        waitLimitMs: options.claimWaitMs ?? 60_000,
      },
      activity: {
        async duringInFlight(pod, work) {
          busy.push(`+${pod}`);
          try {
            return await work();
          } finally {
            busy.push(`-${pod}`);
          }
        },
      },
      drainMs: options.drainMs ?? 60_000,
      holds: createReleaseHolds({
        activity: {
          async announceInFlight(pod) {
            announced.push(pod);
            await options.announcing;
            return 1;
          },
        },
        clock: options.steady ?? systemClock,
        timeOfDay: Date.now,
        signal: hardStop.signal,
      }),
      slots,
      metrics: { count: () => undefined, observe: (source, result) => void results.push(`${source} ${result}`) },
      deliveryLog,
      events: { record: (_, { reason, message }) => void events.push(`${reason}: ${message}`) },
      log: silentLog,
      hardStop: hardStop.signal,
    },
  );
  const answer = (status: ClaimStatus) =>
    cluster.onNext("create", () => setImmediate(() => cluster.setStatus("claim-a-app", status)));
  const logged = () => deliveryLog.read(trigger);
  return { cluster, run, calls, results, events, busy, announced, hardStop, slots, answer, logged };
}

test("who is on an allowlist is one tenant, however an event spells it", async () => {
  const tenantIds = ["alice", "Bob", "BOB", "al ice"];
  const asked: string[] = [];
  const guard: Guard = async ({ tenantId }) => {
    asked.push(tenantId);
    return { allowed: true };
  };
  const { run, calls, cluster } = testEnvironment({
    guards: [guard],
    spec: { guards: [{ type: "allowlist", config: { tenantIds } }] },
  });
  const spellings = Array.from({ length: 32 }, (_, bits) =>
    [..."alice"].map((letter, at) => ((bits >> at) & 1 ? letter.toUpperCase() : letter)).join(""),
  );
  const sent = [...spellings, "Bob", "BOB", "bOb", "carol"];
  // Such a claim would be made, and its event answered.
  for (const [at, tenantId] of [...new Set(sent)].entries())
    cluster.addClaim({ tenantId, workloadRef: "app", status: active(at + 1) });
  for (const who of sent) assert.is((await run({ ...event, fields: { who } }, { signal: never })).kind, "answered");
  const expected = [...spellings.map(() => "alice"), "Bob", "BOB", "Bob", "carol"];
  assert.equal(asked, expected);
  assert.equal(
    calls.map(({ payload }) => payload.tenantId),
    expected,
  );
});

test("a fixed tenant stays as the trigger has it", async () => {
  const { run, calls, cluster } = testEnvironment({
    spec: { tenant: { static: "Alice" }, guards: [{ type: "allowlist", config: { tenantIds: ["alice"] } }] },
  });
  cluster.addClaim({ tenantId: "Alice", workloadRef: "app", status: active() });
  await run(event, { signal: never });
  assert.is(calls[0]?.payload.tenantId, "Alice");
});

test("an event goes through tenant, guards, claim and driver, and its answer comes back", async () => {
  const order: string[] = [];
  const guard =
    (name: string): Guard =>
    async () => {
      order.push(name);
      return { allowed: true };
    };
  const { run, calls, results, busy, answer, cluster } = testEnvironment({
    guards: [guard("first"), guard("second")],
    readToken: async () => "token",
  });
  answer(active());
  let colds = 0;
  const onColdStart = () => {
    colds += 1;
  };
  const outcome = await run(event, { signal: never, onColdStart });
  assert.equal(outcome, { kind: "answered", reply });
  assert.equal(order, ["first", "second"]);
  const [call] = calls;
  assert.equal(call?.payload, {
    id: "e1",
    trigger: "t",
    source: "webhook",
    tenantId: "a",
    data: { who: "a" },
    receivedAt: event.receivedAt,
  });
  assert.equal(call?.endpoint, { host: "10.0.0.1", port: 1 });
  assert.is(call?.token, "token");
  assert.is(cluster.claim("claim-a-app").spec.resume, true);
  assert.equal(busy, ["+inst-1", "-inst-1"]);
  assert.equal(results, ["webhook answered"]);
  assert.is(colds, 1);
  await run(event, { signal: never, onColdStart });
  assert.is(colds, 1, "the pod is there");
});

test("an event joins the session that is there, also one that was started without the tenant's files", async () => {
  const { run, cluster } = testEnvironment({});
  cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active() });
  assert.equal(await run(event, { signal: never, onColdStart: () => undefined }), { kind: "answered", reply });
});

test("a claim that an event creates has what the trigger says, and one that is there stays as it is", async () => {
  const inputs = { env: { LANG: "de" }, secretRef: { name: "shared" } };
  const labels = { team: "red" };
  const { run, cluster, answer } = testEnvironment({ spec: { claim: { inputs, labels, expiresInSeconds: 60 } } });
  cluster.addWorkload("app", { entrypoint: { cmd: "/app", start: "OnClaim" } });
  answer(active());
  assert.is((await run(event, { signal: never })).kind, "answered");
  const { spec } = cluster.claim("claim-a-app");
  assert.equal([spec.inputs, spec.labels], [inputs, labels]);
  assert.ok(Math.abs(Date.parse(spec.expiresAt ?? "") - Date.now() - 60_000) < 30_000, spec.expiresAt);

  const others = { labels: { team: "blue" }, inputs: { env: { LANG: "fr" } } };
  cluster.addClaim({ tenantId: "b", workloadRef: "app", status: active(2), spec: others });
  assert.is((await run({ ...event, fields: { who: "b" } }, { signal: never })).kind, "answered");
  const { labels: kept, inputs: had, expiresAt } = cluster.claim("claim-b-app").spec;
  assert.equal([kept, had, expiresAt], [others.labels, others.inputs, undefined]);
});

test("an event moves the expiry of a claim that is Active, never to an earlier time, and of no other", async () => {
  const { run, cluster } = testEnvironment({ spec: { claim: { expiresInSeconds: 60 } }, claimWaitMs: 500 });
  const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();
  const [soon, late] = [inMs(10_000), inMs(600_000)];
  const failed: ClaimStatus = { phase: "Error", reason: "InvalidInputs", message: "Secret s does not exist" };
  const claims = {
    a: { at: soon, status: active(1) },
    b: { at: late, status: active(2) },
    c: { at: soon, status: failed },
  };
  for (const [tenantId, { at, status }] of Object.entries(claims))
    cluster.addClaim({ tenantId, workloadRef: "app", status, spec: { expiresAt: at } });
  const ends: Record<string, string> = {};
  for (const who of Object.keys(claims)) ends[who] = (await run({ ...event, fields: { who } }, { signal: never })).kind;
  assert.equal(ends, { a: "answered", b: "answered", c: "failed" });
  const expiryOf = (tenant: string) => cluster.claim(`claim-${tenant}-app`).spec.expiresAt ?? "";
  assert.ok(Date.parse(expiryOf("a")) > Date.parse(soon) + 30_000, expiryOf("a"));
  assert.equal([expiryOf("b"), expiryOf("c")], [late, soon]);
});

test("an event without a legal tenant is refused, before any guard", async () => {
  let asked = 0;
  const { run, results, events, cluster } = testEnvironment({
    guards: [
      async () => {
        asked += 1;
        return { allowed: true };
      },
    ],
  });
  const outcome = await run({ ...event, fields: { who: "a/b" } }, { signal: never });
  assert.is(outcome.kind, "refused");
  assert.is(asked, 0);
  assert.equal(cluster.calls, []);
  assert.equal(results, ["webhook refused"]);
  assert.match(events[0] ?? "", /^EventRefused: an event was refused: the event's field who is not a valid tenant id/);
});

test("the first guard that denies ends it, and nothing is claimed", async () => {
  const asked: string[] = [];
  const guard =
    (name: string, allowed: boolean): Guard =>
    async () => {
      asked.push(name);
      return allowed ? { allowed } : { allowed, message: `${name} says no` };
    };
  const { run, cluster, events, slots } = testEnvironment({
    guards: [guard("a", true), guard("b", false), guard("c", false)],
  });
  assert.equal(await run(event, { signal: never }), { kind: "denied", message: "b says no" });
  assert.equal(asked, ["a", "b"]);
  assert.equal(cluster.calls, []);
  assert.equal(events, ["EventDenied: a guard denied an event"]);
  assert.is(slots.inFlight, 0);
});

test("the log says what became of an event, and no word of it, of a guard, of the cluster or of the container", async () => {
  const planted = "planted-S3CRET";
  const told: IncomingEvent = { ...event, data: { word: planted }, text: planted };
  const body = new TextEncoder().encode(planted);
  const environments = {
    answered: testEnvironment({ driver: async () => ({ ...reply, status: 202, body, text: planted }) }),
    denied: testEnvironment({ guards: [async () => ({ allowed: false, message: planted })] }),
    refused: testEnvironment({}),
    failed: testEnvironment({
      async driver() {
        throw new DriverError(`the agent ended with code 1: ${planted}`, { nothingSent: false });
      },
    }),
    unclaimed: testEnvironment({}),
  };
  const { answered, denied, refused, failed, unclaimed } = environments;
  for (const { answer } of [answered, failed]) answer(active());
  unclaimed.answer({ phase: "Error", reason: "CrashLoop", message: planted });
  const seen: string[] = [];
  const onEnded = ({ result }: { result: string }) => void seen.push(result);
  await answered.run({ ...told, test: true }, { signal: never, onEnded });
  await denied.run(told, { signal: never, onEnded });
  await refused.run({ ...told, fields: { who: `/${planted}` } }, { signal: never, onEnded });
  await failed.run(told, { signal: never, onEnded });
  await unclaimed.run(told, { signal: never, onEnded });
  assert.equal(seen, ["answered", "denied", "refused", "failed", "failed"]);
  const logs = Object.values(environments).map(({ logged }) => logged());
  assert.not.ok(JSON.stringify(logs).includes(planted), JSON.stringify(logs));
  const [[first] = [], [second] = [], [third] = [], [fourth] = [], [fifth] = []] = logs;
  assert.ok(Math.abs(Date.parse(first?.at ?? "") - Date.now()) < 60_000);
  assert.equal(JSON.parse(JSON.stringify({ ...first, at: "", ms: 0 })), {
    ...{ id: "e1", at: "", result: "answered", tenantId: "a", status: 202, ms: 0 },
    ...{ source: "cold", instanceId: "inst-1", test: true },
  });
  assert.equal([second?.status, second?.tenantId, second?.reason], [403, "a", "a guard denied it"]);
  assert.equal([third?.status, third?.tenantId], [400, undefined]);
  assert.equal([fourth?.status, fourth?.instanceId, fourth?.reason], [502, "inst-1", "the container did not answer"]);
  assert.equal([fifth?.status, fifth?.reason], [502, "the container could not be started"]);
});

test("a test that fails is in the log and the trigger's Events, and not in the metrics", async () => {
  const denied = testEnvironment({ guards: [async () => ({ allowed: false, message: "no" })] });
  const failed = testEnvironment({
    async driver() {
      throw new DriverError("the agent ended", { nothingSent: false });
    },
  });
  failed.answer(active());
  const refused = testEnvironment({});
  const runs = [
    { ...denied, fields: event.fields, result: "denied" },
    { ...failed, fields: event.fields, result: "failed" },
    { ...refused, fields: {}, result: "refused" },
  ];
  for (const { run, fields, result, logged, results, events } of runs) {
    assert.is((await run({ ...event, fields, test: true }, { signal: never })).kind, result);
    assert.equal(
      logged().map((one) => [one.result, one.test]),
      [[result, true]],
    );
    assert.equal([results, events.length], [[], 1], result);
    // What is no test still counts.
    if (result === "failed") failed.answer(active());
    await run({ ...event, fields }, { signal: never });
    assert.equal([results, events.length], [[`webhook ${result}`], 2], result);
  }
});

test("a claim that fails tells the source nothing of the cluster, and the owner what it was", async () => {
  for (const [status, expected, message, claimWaitMs] of [
    [
      { phase: "Error", reason: "ImagePullFailed", message: "registry.internal/x: no such host" },
      502,
      /could not be started/,
      60_000,
    ],
    [
      { phase: "Error", reason: "WorkloadNotFound", message: "workload app is gone" },
      502,
      /could not be started/,
      60_000,
    ],
    [{ phase: "Pending", message: "0/3 nodes" }, 504, /was not ready in time/, 300],
  ] as const) {
    const { run, events, answer, results } = testEnvironment({ claimWaitMs });
    answer(status);
    const outcome = await run(event, { signal: never });
    assert.is(outcome.kind, "failed");
    if (outcome.kind !== "failed") return;
    assert.is(outcome.status, expected);
    assert.match(outcome.message, message);
    assert.not.match(outcome.message, status.message);
    assert.ok(events[0]?.includes(status.message), events[0]);
    assert.equal(results, ["webhook failed"]);
  }
});

test("a cluster that is away for a moment is waited for, within the limit", async () => {
  const { cluster, run, answer } = testEnvironment({});
  cluster.isFresh = false;
  setTimeout(() => {
    cluster.isFresh = true;
  }, 400);
  answer(active());
  assert.is((await run(event, { signal: never })).kind, "answered");

  const away = testEnvironment({ claimWaitMs: 600 });
  away.cluster.isFresh = false;
  const outcome = await away.run(event, { signal: never });
  assert.equal(outcome, {
    kind: "failed",
    message: "not available now; try again later",
    status: 503,
  });
});

test("a pod that is lost between claim and driver: one more claim where nothing was sent", async () => {
  const lost: Driver = async ({ endpoint }) => {
    if (endpoint.port === 1) {
      setTimeout(() => cluster.setStatus("claim-a-app", { phase: "Pending" }), 50);
      setTimeout(() => cluster.setStatus("claim-a-app", active(2)), 150);
      throw new DriverError("refused", { nothingSent: true });
    }
    return { ...reply, text: String(endpoint.port) };
  };
  const { cluster, run, calls, busy } = testEnvironment({ driver: lost });
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) });
  const outcome = await run(event, { signal: never });
  assert.is(outcome.kind === "answered" && outcome.reply.text, "2");
  assert.equal(
    calls.map(({ payload }) => payload.id),
    ["e1", "e1"],
  );
  assert.equal(busy, ["+inst-1", "-inst-1", "+inst-2", "-inst-2"]);
});

test("nothing is sent to an address that is not, or no longer, the claimed pod's", async () => {
  for (const lose of [
    (cluster: FakeCluster, claim: Claim) => cluster.podOf(claim, { uid: "another", tenantId: "b" }),
    (cluster: FakeCluster, claim: Claim) => cluster.podOf(claim, { podIP: undefined }),
    (cluster: FakeCluster) => cluster.removePod("inst-1"),
  ]) {
    const { cluster, run, calls } = testEnvironment({});
    lose(cluster, cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) }));
    const answer = run(event, { signal: never });
    await eventually(() => cluster.waiters.size > 0);
    cluster.setStatus("claim-a-app", active(2));
    assert.is((await answer).kind, "answered");
    assert.equal(
      calls.map(({ endpoint }) => endpoint.port),
      [2],
    );
  }
});

test("an event goes to the address that the pod has, not to the one that the claim still shows", async () => {
  const { cluster, run, calls } = testEnvironment({});
  cluster.lag = true;
  const claim = cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) });
  cluster.podOf(claim, { podIP: "10.0.0.99" });
  cluster.lag = false;
  cluster.cache.claims.put(claim);
  assert.is((await run(event, { signal: never })).kind, "answered");
  assert.is(calls[0]?.endpoint.host, "10.0.0.99");
});

test("a driver at work is ended when its pod goes or moves, and one that sent nothing is given the next pod", async () => {
  for (const nothingSent of [true, false]) {
    for (const lose of [
      (cluster: FakeCluster) => cluster.removePod("inst-1"),
      (cluster: FakeCluster, claim: Claim) => cluster.podOf(claim, { podIP: "10.0.0.99" }),
    ]) {
      const { cluster, run, calls } = testEnvironment({
        driver({ endpoint, signal, confirm }) {
          if (endpoint.port === 2) return Promise.resolve(reply);
          return new Promise((_, reject) => {
            signal.addEventListener("abort", async () => {
              assert.instance(signal.reason, PodGoneError);
              assert.instance(await confirm().catch((error: unknown) => error), PodGoneError);
              reject(new DriverError("its pod is gone", { nothingSent }));
            });
            setImmediate(() => lose(cluster, claim));
          });
        },
      });
      const claim = cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) });
      const answer = run(event, { signal: never });
      if (nothingSent) {
        await eventually(() => calls.length === 1 && cluster.waiters.size > 0);
        cluster.setStatus("claim-a-app", active(2));
      }
      assert.is((await answer).kind, nothingSent ? "answered" : "failed");
      assert.is(calls.length, nothingSent ? 2 : 1);
      assert.is(cluster.waiters.size, 0);
    }
  }
});

test("a release leaves an event time to end, and then ends it", async () => {
  for (const [drainMs, kind] of [
    [60_000, "answered"],
    [1, "failed"],
  ] as const) {
    const answered = createDeferred<typeof reply>();
    const { cluster, run, calls } = testEnvironment({
      drainMs,
      driver: ({ signal }) =>
        new Promise((resolve, reject) => {
          void answered.promise.then(resolve);
          signal.addEventListener("abort", () => {
            assert.instance(signal.reason, PodGoneError);
            reject(new DriverError("released", { nothingSent: false }));
          });
        }),
    });
    cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) });
    const outcome = run(event, { signal: never });
    await eventually(() => calls.length === 1 && cluster.waiters.size > 0);
    cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1), deleting: true });
    if (kind === "answered") answered.resolve(reply);
    assert.is((await outcome).kind, kind);
    assert.is(cluster.waiters.size, 0);
  }
});

test("an event that a release may have missed is not acknowledged, though no watch shows that release", async () => {
  for (const [agoMs, kind] of [
    [1000, "answered"],
    [13_000, "failed"],
  ] as const) {
    const answered = createDeferred<typeof reply>();
    const steady = manualClock();
    const { cluster, run, calls, announced, events } = testEnvironment({ steady, driver: () => answered.promise });
    cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) });
    const outcome = run(event, { signal: never });
    await eventually(() => calls.length === 1 && announced.length === 1);
    await steady.pass(10_000);
    cluster.lag = true;
    cluster.now = () => Date.now() - agoMs;
    await cluster.client.delete(claims, { namespace: NAMESPACE, name: "claim-a-app" });
    answered.resolve(reply);
    if (kind === "answered") {
      assert.equal(await outcome, { kind, reply });
    } else {
      const message = "not available now; try again later";
      assert.equal(await outcome, { kind, message, status: 503 });
      assert.match(events[0] ?? "", /pod inst-1 is being released, and its changes may not be saved/);
    }
    assert.is(cluster.waiters.size, 0);
  }
});

test("an answer goes on once the pod says that events are in flight, which one look at the claim tells all of them for 10 s", async () => {
  const announcing = createDeferred<void>();
  const steady = manualClock();
  const { cluster, run, calls, announced, slots } = testEnvironment({ steady, announcing: announcing.promise });
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) });
  const outcomes = [run(event, { signal: never }), run(event, { signal: never })];
  await eventually(() => calls.length === 2);
  await steady.pass(0);
  assert.is(slots.inFlight, 2);
  announcing.resolve();
  for (const outcome of outcomes) assert.is((await outcome).kind, "answered");
  await steady.pass(9000);
  assert.is((await run(event, { signal: never })).kind, "answered");
  assert.is(announced.length, 1);
  await steady.pass(1000);
  assert.is((await run(event, { signal: never })).kind, "answered");
  assert.is(announced.length, 2);
});

test("an event is not acknowledged while the API server cannot be asked, and waits for it no longer than 10 s", async () => {
  const steady = manualClock();
  const announcing = createDeferred<void>();
  const { cluster, run, calls } = testEnvironment({ steady, announcing: announcing.promise });
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) });
  const outcome = run(event, { signal: never });
  await eventually(() => calls.length === 1);
  const get = cluster.client.get;
  Object.assign(cluster.client, { get: () => Promise.reject(new Error("away")) });
  announcing.resolve();
  await steady.pass(10_000);
  assert.is((await outcome).kind, "failed");
  Object.assign(cluster.client, { get });
  assert.is((await run(event, { signal: never })).kind, "answered");
});

test("a claim whose pod was destroyed is tried anew with the files of last time, and counts as a cold start", async () => {
  const { cluster, run, calls } = testEnvironment({});
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1), destroyed: "inst-1" });
  cluster.removePod("inst-1");
  cluster.onNext("patch", () => setImmediate(() => cluster.setStatus("claim-a-app", active(2))));
  let colds = 0;
  const onColdStart = () => {
    colds += 1;
  };
  assert.is((await run(event, { signal: never, onColdStart })).kind, "answered");
  assert.equal(
    calls.map(({ endpoint }) => endpoint.port),
    [2],
  );
  assert.is(colds, 1);
  assert.is(cluster.claim("claim-a-app").spec.resume, true);
  assert.not.ok(cluster.verbs().includes("delete"));
});

test("an event whose claim is released while it waits claims anew once; released again, it is a 503", async () => {
  for (const releases of [1, 2]) {
    const { cluster, run, events } = testEnvironment({});
    for (let count = 0; count < releases; count += 1) {
      cluster.onNext("create", () => setImmediate(() => cluster.removeClaim("claim-a-app")));
    }
    cluster.onNext("create", () => setImmediate(() => cluster.setStatus("claim-a-app", active())));
    const outcome = await run(event, { signal: never });
    assert.is(cluster.verbs().filter((verb) => verb === "create").length, 2);
    if (releases === 1) {
      assert.equal(outcome, { kind: "answered", reply });
    } else {
      const message = "not available now; try again later";
      assert.equal(outcome, { kind: "failed", message, status: 503 });
      assert.match(events[0] ?? "", /the claim was released while this call waited/);
    }
  }
});

test("an exchange that broke off after something was sent is not tried again", async () => {
  for (const [error, status] of [
    [new DriverError("reset", { nothingSent: false }), 502],
    [
      new DriverError("late", {
        nothingSent: false,
        cause: Object.assign(new Error("late"), { name: "TimeoutError" }),
      }),
      504,
    ],
  ] as const) {
    const { cluster, run, calls } = testEnvironment({ driver: () => Promise.reject(error) });
    cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active() });
    const outcome = await run(event, { signal: never });
    assert.is(outcome.kind === "failed" && outcome.status, status);
    assert.is(calls.length, 1);
  }
});

test("the driver's token that is missing fails the event, and its name reaches the owner only", async () => {
  const { cluster, run, events } = testEnvironment({
    readToken: () => Promise.reject(new Error("Secret s does not exist")),
  });
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active() });
  const outcome = await run(event, { signal: never });
  assert.is(outcome.kind, "failed");
  assert.not.match(JSON.stringify(outcome), "Secret s");
  assert.match(events[0] ?? "", /Secret s does not exist/);
});

test("an abort ends it wherever it is, with its reason", async () => {
  for (const where of ["slot", "guard", "claim", "driver", "hard stop"]) {
    const untilAborted = (signal: AbortSignal) =>
      new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(new Error("ended"))));
    const { cluster, run, hardStop, slots, results } = testEnvironment({
      ...(where === "guard" && { guards: [(_, { signal }) => untilAborted(signal)] }),
      driver: ({ signal }) => untilAborted(signal),
    });
    if (where !== "claim") cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active() });
    const own = { trigger: "u", tenant: "a" };
    const leaves = where === "slot" ? [await slots.acquire(own, never), await slots.acquire(own, never)] : [];
    const abort = new AbortController();
    const reason = new Error(`aborted in ${where}`);
    setTimeout(() => (where === "hard stop" ? hardStop : abort).abort(reason), 30);
    const thrown = await run(event, { signal: abort.signal }).catch((error: unknown) => error);
    assert.is(thrown, reason);
    assert.equal(results, ["webhook aborted"]);
    for (const leave of leaves) leave();
    assert.is(slots.inFlight + slots.waiting, 0);
    assert.is(cluster.waiters.size, 0);
  }
});

test("slow events of one tenant leave room for another's, and only its own caller is told that they are too many", async () => {
  const held: (() => void)[] = [];
  const { cluster, run, results, events } = testEnvironment({
    async driver({ payload }) {
      if (payload.tenantId === "a") await new Promise<void>((resolve) => held.push(resolve));
      return { ...reply, text: payload.tenantId };
    },
  });
  cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active(1) });
  cluster.addClaim({ tenantId: "b", workloadRef: "app", status: active(2) });
  const slow = Array.from({ length: 25 }, () => run(event, { signal: never }));
  for (let count = 0; count < 10; count += 1) {
    const outcome = await run({ ...event, fields: { who: "b" } }, { signal: never });
    assert.is(outcome.kind === "answered" && outcome.reply.text, "b");
  }
  const message = "too many events are waiting; try again later";
  for (const outcome of await Promise.all(slow.slice(20))) {
    assert.equal(outcome, { kind: "failed", message, status: 429 });
  }
  assert.is(results.filter((result) => result === "webhook rejected").length, 5);
  assert.equal(events, [], "no Event for each");
  const answered = Promise.all(slow.slice(0, 20));
  for (let count = 0; count < 20; count += 1) {
    while (held.length === 0) await new Promise((resolve) => setImmediate(resolve));
    held.shift()?.();
  }
  assert.ok((await answered).every(({ kind }) => kind === "answered"));
});

test("an event begins a trace with guards, claim and driver, or is part of its request's", async () => {
  const guards: Guard[] = [async ({ data }) => ({ allowed: data !== "denied", message: "s3cret" })];
  const { tracer, family, one, spans } = createRecorder();
  const { run, answer } = testEnvironment({ tracer, guards, spec: { type: "messenger" } });
  answer(active());
  await run({ ...event, text: "s3cret", data: "s3cret" }, { signal: never });
  const steps = ["create claim", "forward to instance", "guards", "wait until Active"];
  assert.equal(family(), ["messenger event", ...steps.map((step) => `messenger event > ${step}`)]);
  assert.is(one("messenger event").kind, "consumer");
  assert.is(one("messenger event").attributes["tenancy.event.outcome"], "answered");
  assert.is(one("forward to instance").attributes["k8s.pod.name"], "inst-1");
  spans.length = 0;
  const request = tracer.start("POST");
  assert.is((await run({ ...event, data: "denied" }, { signal: never, span: request })).kind, "denied");
  request.end();
  assert.equal(family(), ["POST", "POST > messenger event", "messenger event > guards"]);
  assert.is(one("guards").attributes["tenancy.guard.allowed"], false);
  assert.not.match(exportRequest(spans, {}), "s3cret");
});

test("an event that fails is a failed span, also where the driver alone failed", async () => {
  const { tracer, one } = createRecorder();
  const driver: Driver = async () => {
    throw new DriverError("s3cret", { nothingSent: false });
  };
  const { run, answer } = testEnvironment({ tracer, driver, spec: { type: "cron" } });
  answer(active());
  assert.is((await run(event, { signal: never })).kind, "failed");
  for (const name of ["cron event", "forward to instance"]) {
    assert.is(one(name).isError, true);
    assert.is(one(name).attributes["error.type"], "DriverError");
  }
});

test.run();
