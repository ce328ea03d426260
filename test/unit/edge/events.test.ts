// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { Workload } from "../../../crds/workload.ts";
import { createEventHub } from "../../../edge/api/events/event-hub.ts";
import { createEventRing } from "../../../edge/api/events/event-ring.ts";
import { publishChanges, publishClaim, publishPod } from "../../../edge/api/events/publish-change.ts";
import type { EventSocket } from "../../../edge/http/event-socket.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("events");
const event = (text: string) => ({ type: "instance.added" as const, tenant: "a", workload: "app", text });
const texts = (events: readonly { text: string }[] | undefined) => events?.map(({ text }) => text);
const standing = () => ({ fresh: true, versions: { claims: "7" } });
const everything = { tenant: undefined, workload: undefined, types: undefined };

test("the ring keeps the last events, by count and by size", () => {
  const ring = createEventRing({ events: 3, characters: 10 });
  assert.equal(texts(ring.after(0)), []);
  assert.is(ring.after(1), undefined);
  for (const text of ["a", "b", "c", "d", "e"]) ring.add(event(text));
  assert.equal(texts(ring.after(5)), []);
  assert.equal(texts(ring.after(2)), ["c", "d", "e"]);
  assert.is(ring.after(1), undefined);
  assert.is(ring.after(6), undefined);
  ring.add(event("123456789"));
  assert.equal(texts(ring.after(5)), ["123456789"]);
  ring.add(event("12345678901"));
  assert.is(ring.after(6), undefined);
  assert.equal(texts(ring.after(7)), []);
  for (let count = 0; count < 1000; count += 1) ring.add(event(String(count)));
  assert.equal(texts(ring.after(1005)), ["998", "999"]);
  ring.skip();
  assert.equal([ring.after(1007), ring.after(1008)], [undefined, []]);
  ring.add(event("f"));
  assert.equal([ring.after(1007), texts(ring.after(1008))], [undefined, ["f"]]);
});

test("events are made for a client that may come back, and what was not made is never taken for nothing", async () => {
  const clock = manualClock();
  const hub = createEventHub({ instance: "i", clock, standing });
  const { claims } = publishChanges(hub);
  let made = 0;
  const change = () =>
    claims({
      type: "added",
      object: {
        metadata: { name: "c" },
        get spec() {
          made += 1;
          return { tenantId: "a", workloadRef: "app" };
        },
      },
    });
  const connect = (since?: string) => {
    const told: string[] = [];
    const listener = hub.client({ filter: everything, since });
    listener.onOpen({
      send: (text) => {
        const { id, type } = JSON.parse(String(text));
        told.push(`${type} ${id}`);
      },
      waitingBytes: 0,
      cut: () => undefined,
      close: () => undefined,
    });
    listener.onMessage("ping");
    return { told, leave: () => listener.onClose() };
  };
  change();
  assert.is(made, 0);

  const first = connect();
  change();
  first.leave();
  await clock.pass(299_999);
  change();
  assert.equal(first.told, ["pong i-0", "claim.pending i-1"]);
  const back = connect("i-1");
  assert.equal(back.told, ["claim.pending i-2", "pong i-2"]);
  back.leave();
  await clock.pass(300_000);
  const quiet = connect("i-2");
  assert.equal(quiet.told, ["pong i-2"]);
  quiet.leave();

  // Also an id that only a pong has told, with no event between.
  await clock.pass(300_000);
  made = 0;
  change();
  assert.is(made, 0);
  const late = connect("i-2");
  assert.equal(late.told, ["resync i-3", "pong i-3"]);
  change();
  assert.equal(late.told.at(-1), "claim.pending i-4");
});

test("one message is made for all clients of an event, and only its own listeners are looked at", () => {
  const hub = createEventHub({ instance: "i", clock: manualClock(), standing });
  const sent: [string, string][] = [];
  const published: [string, string][] = [];
  const socket = (name: string, native: boolean): EventSocket => ({
    send: (text) => sent.push([name, String(text)]),
    waitingBytes: 0,
    cut: () => undefined,
    close: () => undefined,
    ...(native && {
      fanOut: { subscribe: () => undefined, publish: (topic, text) => published.push([topic, text]) },
    }),
  });
  const listeners = [
    { filter: everything, native: false },
    { filter: everything, native: false },
    { filter: { ...everything, tenant: "a" }, native: true },
    { filter: { ...everything, tenant: "a" }, native: true },
    { filter: { ...everything, tenant: "b" }, native: true },
  ].map(({ filter, native }, index) => {
    const listener = hub.client({ filter, since: undefined });
    listener.onOpen(socket(String(index), native));
    return listener;
  });
  hub.publish({ type: "instance.added", tenant: "a", workload: "app", object: {} });
  assert.equal(
    sent.map(([name]) => name),
    ["0", "1"],
  );
  assert.is(published.length, 1);
  assert.is(sent[0]?.[1], published[0]?.[1]);
  assert.equal(JSON.parse(sent[0]?.[1] ?? ""), {
    id: "i-1",
    type: "instance.added",
    time: "2026-01-01T00:00:00.000Z",
    object: {},
  });
  for (const listener of listeners) {
    listener.onClose();
    listener.onClose();
  }
  assert.is(hub.size, 0);
  hub.publish({ type: "instance.added", tenant: "a", workload: "app", object: {} });
  assert.is(sent.length + published.length, 3);
});

test("a client that was cut counts as a connection until it is gone, and hears nothing", () => {
  const hub = createEventHub({ instance: "i", clock: manualClock(), standing });
  let sent = 0;
  const stuck = () => {
    const listener = hub.client({ filter: everything, since: undefined });
    listener.onOpen({
      send: () => {
        sent += 1;
      },
      waitingBytes: 3 * 1024 * 1024,
      cut: () => undefined,
      close: () => undefined,
    });
    return listener;
  };
  const first = stuck();
  while (!hub.isFull) stuck();
  assert.is(hub.size, 4096);
  hub.publish({ type: "instance.added", tenant: "a", workload: "app", object: {} });
  assert.equal([hub.size, sent, hub.isFull], [0, 0, true]);
  first.onClose();
  assert.is(hub.isFull, false);
});

test("pings in the pause after an answer share the next one: a flood costs two answers, and the last ping has its own", async () => {
  const clock = manualClock();
  let made = 0;
  const counted = () => ({ ...standing(), made: ++made });
  const hub = createEventHub({ instance: "i", clock, standing: counted });
  const connect = () => {
    const answers: unknown[] = [];
    const listener = hub.client({ filter: everything, since: undefined });
    listener.onOpen({
      send: (text) => {
        const { id, type, made: one } = JSON.parse(String(text));
        answers.push(type === "pong" ? `${id} ${one}` : type);
      },
      waitingBytes: 0,
      cut: () => undefined,
      close: () => undefined,
    });
    return { answers, listener };
  };
  const [flood, page] = [connect(), connect()];
  for (let sent = 0; sent < 10_000; sent += 1) flood.listener.onMessage("ping");
  // One that floods keeps nobody else's answer back.
  page.listener.onMessage("ping");
  assert.equal([flood.answers, page.answers, made], [["i-0 1"], ["i-0 2"], 2]);
  // The answer that is due tells of the end of the pause, behind all that came before.
  hub.publish({ type: "instance.added", tenant: "a", workload: "app", object: {} });
  await clock.pass(99);
  assert.is(made, 2);
  await clock.pass(1);
  assert.equal([flood.answers, made], [["i-0 1", "instance.added", "i-1 3"], 3]);
  // Whoever asks once each time that he was answered misses none.
  flood.listener.onMessage("ping");
  await clock.pass(100);
  assert.equal(flood.answers.at(-1), "i-1 4");
  await clock.pass(100);
  assert.equal([made, clock.pending()], [4, 0]);
  flood.listener.onMessage("ping");
  assert.is(made, 5);
  // Who goes leaves no timer and is owed nothing.
  flood.listener.onMessage("ping");
  flood.listener.onClose();
  assert.is(clock.pending(), 0);
});

test("a client that is cut is owed no answer", async () => {
  const clock = manualClock();
  const hub = createEventHub({ instance: "i", clock, standing });
  const sent: string[] = [];
  const listener = hub.client({ filter: everything, since: undefined });
  listener.onOpen({
    send: (text) => void sent.push(String(text)),
    get waitingBytes() {
      return sent.length * 3 * 1024 * 1024;
    },
    cut: () => undefined,
    close: () => undefined,
  });
  for (let count = 0; count < 3; count += 1) listener.onMessage("ping");
  hub.publish({ type: "instance.added", tenant: "a", workload: "app", object: {} });
  assert.equal([hub.size, clock.pending()], [0, 0]);
  listener.onMessage("ping");
  assert.equal([sent.length, clock.pending()], [1, 0]);
});

test("what goes to strangers holds neither a message nor labels of others", () => {
  const seen: unknown[] = [];
  const hub = { publish: ({ object }: { object: object }) => seen.push(JSON.parse(JSON.stringify(object))) };
  const claim: Claim = {
    metadata: { name: "c" },
    spec: { tenantId: "a", workloadRef: "app", expiresAt: "2026-01-01T00:00:00Z", labels: { team: "red" } },
    status: { phase: "Error", reason: "CrashLooping", message: "last with exit code 1 (token=hunter2)" },
  };
  publishClaim({ type: "added", object: claim }, hub);
  publishClaim(
    { type: "modified", object: { ...claim, status: { phase: "Error", reason: "CrashLooping" } }, previous: claim },
    hub,
  );
  const own = { [label.workload]: "app", [label.managed]: "true", "claim.tenancy.dev/team": "red" };
  const labels = { ...own, "example.com/owner": "hunter2" };
  publishPod(
    {
      type: "added",
      object: { metadata: { name: "p", labels, annotations: { note: "hunter2" } }, spec: { containers: [] } },
    },
    hub,
  );
  assert.equal(seen, [
    {
      ...{ tenantId: "a", phase: "Error", workloadRef: "app", reason: "CrashLooping" },
      ...{ expiresAt: "2026-01-01T00:00:00Z", labels: { team: "red" } },
    },
    {
      ...{ name: "p", phase: "Pending", ready: false, restarts: 0, workloadRef: "app", createdAt: "" },
      labels: own,
    },
  ]);
});

test("after the close, who comes late is closed too", () => {
  const hub = createEventHub({ instance: "i", clock: manualClock(), standing });
  hub.close();
  const codes: number[] = [];
  hub.client({ filter: everything, since: undefined }).onOpen({
    send: () => undefined,
    waitingBytes: 0,
    cut: () => undefined,
    close: (code) => codes.push(code),
  });
  assert.equal(codes, [1001]);
  assert.is(hub.size, 0);
});

test("a change of a pod is an event where its record shows it", () => {
  const seen: [string, string | undefined][] = [];
  const hub = {
    publish: ({ type, tenant }: { type: string; tenant: string | undefined }) => seen.push([type, tenant]),
  };
  const pod = (phase: "Pending" | "Running", more: object = {}): Pod => ({
    metadata: { name: "p", labels: { [label.workload]: "app", ...more } },
    spec: { containers: [] },
    status: { phase },
  });
  publishPod({ type: "added", object: pod("Pending") }, hub);
  publishPod({ type: "modified", object: pod("Pending"), previous: pod("Pending") }, hub);
  publishPod({ type: "modified", object: pod("Running"), previous: pod("Pending") }, hub);
  const claimed = pod("Running", { [label.tenant]: "a" });
  publishPod({ type: "modified", object: claimed, previous: pod("Running") }, hub);
  publishPod({ type: "deleted", object: claimed, previous: claimed }, hub);
  assert.equal(seen, [
    ["instance.added", undefined],
    ["instance.modified", undefined],
    ["instance.modified", "a"],
    ["instance.deleted", "a"],
  ]);
});

test("a change of a claim is an event named for its phase", () => {
  const seen: string[] = [];
  const hub = { publish: ({ type }: { type: string }) => seen.push(type) };
  const claim = (status?: ClaimStatus): Claim => ({
    metadata: { name: "c" },
    spec: { tenantId: "a", workloadRef: "app" },
    ...(status !== undefined && { status }),
  });
  publishClaim({ type: "added", object: claim() }, hub);
  let previous = claim();
  for (const phase of ["Pending", "Active", "Releasing", "ReleaseFailed", "Released", "Error"] as const) {
    const object = claim({ phase });
    publishClaim({ type: "modified", object, previous }, hub);
    publishClaim({ type: "modified", object, previous: object }, hub);
    previous = object;
  }
  publishClaim({ type: "deleted", object: previous, previous }, hub);
  assert.equal(seen, [
    "claim.pending",
    "claim.active",
    "claim.releasing",
    "claim.releasefailed",
    "claim.released",
    "claim.error",
    "claim.deleted",
  ]);
});

test("of a workload, a pool and a trigger it is told that something has changed, never the spec or what is said", () => {
  const seen: [type: string, workload: string | undefined, object: object][] = [];
  const { workloads, pools, triggers } = publishChanges({
    isHeard: () => true,
    publish: ({ type, workload, object }) => void seen.push([type, workload, object]),
  });
  const metadata = { name: "x", generation: 1, creationTimestamp: "2026-01-01T00:00:00Z" };
  const workload: Workload = {
    metadata,
    spec: { image: { ref: "a:1" }, entrypoint: { env: { TOKEN: "hunter2" } } },
    status: { phase: "Error", reason: "ImagePullFailed", message: "hunter2 is no image" },
  };
  const change = (status: Workload["status"]) =>
    workloads({
      type: "modified",
      object: { ...workload, ...(status !== undefined && { status }) },
      previous: workload,
    });
  workloads({ type: "added", object: workload });
  change(workload.status);
  change({ phase: "Error", reason: "ImagePullFailed", message: "hunter3 is no image" });
  change({ phase: "Ready" });
  pools({ type: "deleted", object: { metadata, spec: { workloadRef: "app", size: 3 } } });
  const trigger: Trigger = {
    metadata,
    spec: { type: "webhook", workloadRef: "app", tenant: { static: "hunter2" }, config: { path: "/hunter2" } },
    status: { phase: "Error", detail: "hunter2" },
  };
  triggers({ type: "added", object: trigger });
  // What its adapter remembers changes with each event.
  triggers({
    type: "modified",
    object: { ...trigger, metadata: { ...metadata, resourceVersion: "7" } },
    previous: trigger,
  });
  const shown = { name: "x", generation: 1, createdAt: "2026-01-01T00:00:00Z" };
  const failed = { ...shown, phase: "Error", reason: "ImagePullFailed" };
  assert.equal(seen, [
    ["workload.added", "x", failed],
    ["workload.modified", "x", failed],
    ["workload.modified", "x", { ...shown, phase: "Ready" }],
    ["pool.deleted", "app", { ...shown, workloadRef: "app", size: 3, phase: "Filling", ready: 0, warming: 0 }],
    ["trigger.added", "app", { ...shown, type: "webhook", workloadRef: "app", phase: "Error" }],
  ]);
});

test.run();
