// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, NetworkError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { createActivity } from "../../../edge/activity.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { NAMESPACE } from "./fake-cluster.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("activity");
const START = "2026-01-01T00:00:00.000Z";

/** A pod that was claimed a while ago, and an edge whose clock stands at START. */
function withPod(timeoutSeconds?: string, claimedAt = "2025-12-31T00:00:00Z") {
  const edge = testEdge();
  const pod = edge.cluster.addPod("inst-a", "Running", {
    podIP: "10.0.0.9",
    labels: { [label.tenant]: "a" },
    annotations: {
      [annotation.claimUid]: "u",
      [annotation.claimedAt]: claimedAt,
      ...(timeoutSeconds !== undefined && { [annotation.idleTimeoutSeconds]: timeoutSeconds }),
    },
  });
  const written = () =>
    edge.cluster.calls
      .filter(({ verb }) => verb === "patch")
      .map(
        ({ body }) =>
          (body as { metadata: { annotations: Record<string, string> } }).metadata.annotations[annotation.lastActivity],
      );
  return { ...edge, pod, written, touch: () => edge.activity.touch("inst-a") };
}

/** With what the pod shows as its last use, and another replica that writes one. */
function withUses(claimedAt?: string) {
  const edge = withPod("60", claimedAt);
  const ref = { namespace: NAMESPACE, name: "inst-a" };
  return {
    ...edge,
    shown: () => edge.cluster.read(pods, "inst-a").metadata.annotations?.[annotation.lastActivity],
    useElsewhere: (at: string) =>
      edge.cluster.client.patch(pods, ref, {
        type: "merge",
        body: { metadata: { annotations: { [annotation.lastActivity]: at } } },
      }),
  };
}

test("the first use is written at once, on that pod only", async () => {
  const { touch, written, cluster, pod } = withPod("60");
  touch();
  assert.equal(written(), [START]);
  assert.is((cluster.calls[0]?.body as { metadata: { uid: string } } | undefined)?.metadata.uid, pod.metadata.uid);
});

test("many uses within an interval are one write at its end, of the last use", async () => {
  const { touch, written, clock } = withPod("60");
  touch();
  await eventually(() => clock.pending() === 0 && written().length === 1);
  await turns();
  for (let count = 0; count < 100; count += 1) touch();
  assert.is(written().length, 1);
  assert.is(clock.pending(), 1);
  assert.is(await clock.runNext(), 6000);
  assert.equal(written(), [START, START]);
});

test("the interval is at most 30 s", async () => {
  const { touch, written, clock } = withPod("86400", START);
  touch();
  assert.equal(written(), []);
  assert.is(await clock.runNext(), 30_000);
  assert.equal(written(), [START]);
});

test("a claim that was just made needs no write of its own", async () => {
  const { touch, written, clock } = withPod("60", START);
  touch();
  assert.equal(written(), []);
  assert.is(clock.pending(), 1);
});

test("without an idle time the last use is written too, once a minute", async () => {
  for (const timeoutSeconds of [undefined, "soon"]) {
    const { touch, written, clock } = withPod(timeoutSeconds);
    touch();
    assert.equal(written(), [START]);
    await turns();
    for (let count = 0; count < 100; count += 1) touch();
    assert.is(clock.pending(), 1);
    assert.is(await clock.runNext(), 60_000);
    assert.equal(written(), [START, START]);
  }
});

test("without an idle time a person's use shows within 5 s, a busy hour takes a write a minute, and a short claim none", async () => {
  const { touch, written, clock } = withPod(undefined, START);
  const start = clock.now();
  const shownAt = () => Math.max(start, ...written().map((time) => Date.parse(time ?? "")));
  const use = async (afterMs: number) => {
    await clock.pass(afterMs);
    touch();
    await turns();
  };
  await use(3000);
  assert.equal(written(), [], "the claim itself shows when it was used");
  for (const afterMs of [17_000, 3000, 300_000, 2000, 3_600_000]) {
    await use(afterMs);
    const usedAt = clock.now();
    await clock.pass(5000);
    assert.ok(usedAt - shownAt() <= 5000, `after ${afterMs} ms`);
  }
  await use(300_000);
  const [before, from] = [written().length, clock.now()];
  for (let seconds = 0; seconds < 3600; seconds += 1) {
    await use(1000);
    const inUseMs = clock.now() - from;
    assert.ok(clock.now() - shownAt() <= Math.max(5000, Math.min(inUseMs, 60_000)), `${inUseMs}`);
  }
  const count = written().length - before;
  assert.ok(count <= 64, `${count} writes an hour`);
});

test("unclaimed pods and unknown pods need none", async () => {
  const edge = testEdge();
  edge.cluster.addPod("warm", "Running", { annotations: { [annotation.idleTimeoutSeconds]: "60" } });
  for (const name of ["warm", "nobody"]) edge.activity.touch(name);
  assert.equal(edge.cluster.calls, []);
  assert.is(edge.clock.pending(), 0);
});

test("work in flight renews the activity, and its end counts", async () => {
  const { activity, written, clock } = withPod("60");
  let finish: (value: string) => void = () => undefined;
  const work = activity.during("inst-a", () => new Promise<string>((resolve) => (finish = resolve)));
  assert.equal(written(), [START]);
  await turns();
  for (let count = 0; count < 4; count += 1) {
    await clock.runNext();
    await turns();
  }
  assert.ok(written().length >= 3, written().join());
  assert.ok((written().at(-1) ?? "") > START);
  finish("done");
  assert.is(await work, "done");
  await activity.close();
  assert.is(clock.pending(), 0);
  assert.is(written().at(-1), new Date(clock.now()).toISOString());
});

test("work that fails ends the renewal too", async () => {
  const { activity, clock } = withPod("60");
  try {
    await activity.during("inst-a", () => Promise.reject(new Error("no")));
    assert.unreachable();
  } catch (error) {
    assert.match(String(error), "no");
  }
  await activity.close();
  assert.is(clock.pending(), 0);
});

test("a failed write is logged and tried again after an interval, not at every use", async () => {
  const { touch, written, clock, cluster, log } = withPod("60");
  cluster.onNext("patch", new NetworkError("refused", { requestWasSent: false }));
  touch();
  await turns();
  for (let count = 0; count < 10; count += 1) touch();
  assert.is(written().length, 1);
  assert.equal(
    log.map(({ level, message }) => `${level}: ${message}`),
    ["warn: activity could not be written, it is tried again"],
  );
  assert.is(await clock.runNext(), 6000);
  await turns();
  assert.equal(written(), [START, START]);
});

test("a late write leaves a later use alone that another replica has written", async () => {
  const later = "2026-01-01T00:00:03.000Z";
  const { touch, clock, cluster, written, shown, useElsewhere } = withUses();
  cluster.lag = true;
  cluster.onNext("patch", new NetworkError("refused", { requestWasSent: false }));
  touch();
  await turns();
  await useElsewhere(later);
  await clock.pass(6000);
  assert.equal(cluster.verbs(), ["patch", "patch", "get"]);
  assert.is(shown(), later);
  assert.is(clock.pending(), 0, "that is the last use");
  touch();
  await clock.pass(6000);
  assert.is(shown(), written().at(-1));
  assert.ok((shown() ?? "") > later);
});

test("a late write that another replica overtakes looks again", async () => {
  const later = "2026-01-01T00:00:07.000Z";
  const { touch, clock, cluster, shown, useElsewhere } = withUses();
  cluster.lag = true;
  cluster.onNext("patch", new NetworkError("refused", { requestWasSent: false }));
  touch();
  await turns();
  cluster.onNext("patch", () => void useElsewhere(later));
  await clock.pass(6000);
  assert.is(shown(), later);
  await clock.pass(6000);
  assert.is(shown(), later);
  assert.is(clock.pending(), 0);
});

test("a late write leaves another pod of that name alone", async () => {
  const { touch, clock, cluster, pod, shown } = withUses();
  cluster.onNext("patch", new NetworkError("refused", { requestWasSent: false }));
  touch();
  await turns();
  cluster.add(pods, { ...pod, metadata: { ...pod.metadata, uid: "another" } }, { hidden: true });
  await clock.pass(6000);
  assert.equal(cluster.verbs(), ["patch", "get"]);
  assert.not.ok(shown());
  assert.is(clock.pending(), 0);
});

test("a write that comes late since this process was suspended leaves a later use alone", async () => {
  const later = "2026-01-01T00:30:00.000Z";
  const { touch, clock, cluster, shown, useElsewhere } = withUses(START);
  cluster.lag = true;
  touch();
  await useElsewhere(later);
  clock.set(Date.parse("2026-01-01T00:31:00Z"));
  await clock.pass(6000);
  assert.is(shown(), later);
});

test("a use beside a later one that the watch shows moves that on, not back", async () => {
  const { touch, clock, shown, useElsewhere } = withUses(START);
  touch();
  await useElsewhere("2026-01-01T00:00:05.000Z");
  await clock.pass(6000);
  assert.is(shown(), "2026-01-01T00:00:05.001Z");
  assert.is(clock.pending(), 0);
});

test("beside a replica whose clock is ahead each record of a use is a new one, and work in flight stays announced", async () => {
  const { activity, touch, clock, cluster, shown } = withUses();
  const clockAhead = manualClock("2026-01-01T00:10:00Z");
  const shared = { cluster: cluster.cluster, namespace: NAMESPACE, cache: cluster.cache, log: silentLog };
  const replicaAhead = createActivity({ ...shared, clock: clockAhead, instance: "ahead" });
  replicaAhead.touch("inst-a");
  await turns();
  assert.is(shown(), "2026-01-01T00:10:00.000Z");
  const work = createDeferred<void>();
  const done = activity.duringInFlight("inst-a", () => work.promise);
  await turns();
  const uses = new Set([shown()]);
  for (let count = 1; count <= 20; count += 1) {
    touch();
    await clock.pass(6000);
    uses.add(shown());
    const until = cluster.read(pods, "inst-a").metadata.annotations?.["inflight.tenancy.dev/test"];
    assert.ok(Date.parse(until ?? "") - clock.now() >= 20_000, `announced until ${until} after ${count} intervals`);
  }
  assert.is(uses.size, 21);
  assert.ok([...uses].every((use) => (use ?? "") > "2026-01-01T00:10:00.000Z"));
  work.resolve();
  await done;
  await activity.close();
});

test("a pod that is gone is fine", async () => {
  for (const error of [
    new ApiError("not found", { status: 404, reason: "NotFound" }),
    new ApiError("uid", { status: 409, reason: "Conflict" }),
  ]) {
    const { touch, clock, cluster, log } = withPod("60");
    cluster.onNext("patch", error);
    touch();
    await turns();
    assert.equal(log, []);
    assert.is(clock.pending(), 0);
  }
});

test("a use of a pod that has gone since is not written", async () => {
  const { touch, clock, cluster, written } = withPod("60", START);
  touch();
  assert.is(clock.pending(), 1);
  cluster.removePod("inst-a");
  await clock.runNext();
  assert.equal(written(), []);
  assert.is(clock.pending(), 0);
});

test("a close writes what is still to be written", async () => {
  const { touch, written, clock, activity } = withPod("60", START);
  touch();
  await activity.close();
  assert.equal(written(), [START]);
  assert.is(clock.pending(), 0);
});

test("an existing claim is an activity, answered before its write; a new one is none", async () => {
  const { cluster, call, written } = withPod("60");
  const status = { phase: "Active", instanceId: "inst-a" } as const;
  cluster.addClaim({ tenantId: "a", workloadRef: "app", uid: "u", status });
  let finish: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (finish = resolve));
  const patch = cluster.client.patch;
  Object.assign(cluster.client, { patch: (...all: Parameters<typeof patch>) => held.then(() => patch(...all)) });
  const answer = await call("POST /api/v1/tenants/a/claim", { body: { workload: "app" } });
  assert.is((answer.json as { source: string }).source, "existing");
  assert.equal(written(), []);
  finish();
  await turns();
  assert.equal(written(), [START]);
});

test("work in flight is said on the pod at once, for longer than a release waits, with each record anew, and taken back", async () => {
  const { activity, cluster, clock } = withPod("60", START);
  const said = () =>
    cluster.calls.map(({ body }) => {
      const { annotations } = (body as { metadata: { annotations: Record<string, string | null> } }).metadata;
      const until = annotations["inflight.tenancy.dev/test"];
      return typeof until === "string" ? Date.parse(until) - Date.parse(START) : until;
    });
  const work = createDeferred<void>();
  const done = activity.duringInFlight("inst-a", () => work.promise);
  assert.equal(said(), [26_000]);
  await turns();
  assert.is(await clock.runNext(), 6000);
  await turns();
  assert.equal(said(), [26_000, 32_000]);
  work.resolve();
  await done;
  const again = createDeferred<void>();
  const third = activity.duringInFlight("inst-a", () => again.promise);
  await turns();
  assert.equal(said(), [26_000, 32_000], "what was said before still counts");
  again.resolve();
  await third;
  await activity.clearInFlight("inst-a");
  assert.equal(said(), [26_000, 32_000, null]);
  await activity.clearInFlight("inst-a");
  await clock.pass(6000);
  assert.equal(said(), [26_000, 32_000, null, undefined], "the last use is recorded, without work");
});

test("what was said of work in flight stays until the last of it has ended, though it is to be taken back", async () => {
  const { activity, cluster } = withPod("60", START);
  const said = () => cluster.read(pods, "inst-a").metadata.annotations?.["inflight.tenancy.dev/test"];
  const works = [createDeferred<void>(), createDeferred<void>()];
  const done = works.map(({ promise }) => activity.duringInFlight("inst-a", () => promise));
  await turns();
  await activity.clearInFlight("inst-a");
  works[0]?.resolve();
  await turns();
  assert.ok(said());
  works[1]?.resolve();
  await Promise.all(done);
  await turns();
  assert.not.ok(said());
  await activity.close();
});

test("work in flight counts as announced while its word holds without a gap, and is announced anew otherwise", async () => {
  const { activity, cluster, clock } = withPod("60", START);
  const patches = () => cluster.calls.filter(({ verb }) => verb === "patch").length;
  assert.is(await activity.announceInFlight("inst-a"), undefined, "there is no work");
  const work = createDeferred<void>();
  const done = activity.duringInFlight("inst-a", () => work.promise);
  const since = clock.now();
  assert.is(await activity.announceInFlight("inst-a"), since);
  assert.is(patches(), 1, "the write that is under way is waited for");
  await clock.pass(6000);
  await turns();
  assert.is(await activity.announceInFlight("inst-a"), since, "renewed in time");
  for (let count = 0; count < 2; count += 1) {
    cluster.onNext("patch", new NetworkError("refused", { requestWasSent: false }));
    await clock.pass(6000);
    await turns();
  }
  assert.is(await activity.announceInFlight("inst-a"), clock.now(), "its word came too near to its end");
  work.resolve();
  await done;
  await activity.close();
});

test("a close takes back what was said of work in flight, so that no release waits for a process that is gone", async () => {
  const { activity, cluster, clock, pod } = withPod("60", START);
  const work = createDeferred<void>();
  const done = activity.duringInFlight("inst-a", () => work.promise);
  await turns();
  const said = () => cluster.read(pods, pod.metadata.name).metadata.annotations?.["inflight.tenancy.dev/test"];
  assert.ok(said());
  work.resolve();
  await done;
  await activity.close();
  assert.not.ok(said());
  assert.is(clock.pending(), 0);
});

test.run();

/** Lets what is ready go on. */
async function turns(): Promise<void> {
  for (let count = 0; count < 20; count += 1) await new Promise((resolve) => setImmediate(resolve));
}
