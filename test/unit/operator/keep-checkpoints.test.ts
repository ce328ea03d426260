import { test } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { QuotaError } from "../../../crds/snapshots/snapshot-store.ts";
import type { NameOutcome } from "../../../crds/snapshots/version-names.ts";
import { createDeferred } from "../../../crds/waits.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { dropCheckpoint, keepCheckpoints } from "../../../operator/claim/keep-checkpoints.ts";
import type { SaveCall, SavedSnapshot } from "../../../operator/snapshots/save-pod.ts";
import { eventually } from "../../eventually.ts";
import { archive } from "../snapshots/helper-objects.ts";
import { onS3, testOperator } from "./test-operator.ts";

const SECOND = 1000;
const BEGUN = Date.parse("2026-01-01T00:00:00Z");
const running = { name: "workload", image: "i", ready: true, restartCount: 0, state: { running: {} } };

interface Options {
  readonly filesystem?: WorkloadSpec["filesystem"];
  readonly idleTimeoutSeconds?: string;
  /** What each save results in. @default it saves the files */
  readonly save?: (saves: number) => Promise<SavedSnapshot>;
  /** The result of each name that is given. @default "named" */
  readonly outcome?: NameOutcome;
  /** Names that archives have. @default none */
  readonly present?: readonly string[];
}

/** A claim of an instance that runs, whose clock a test sets. */
function active(options: Options = {}) {
  const { filesystem, idleTimeoutSeconds, save = async () => archive, outcome = "named", present = [] } = options;
  let now = BEGUN;
  const calls: SaveCall[] = [];
  const dropped: string[] = [];
  const names: string[] = [];
  const { api, context, events } = testOperator({
    env: onS3,
    serverNow: () => now,
    exec: () => Promise.reject(new Error("nothing is to be run")),
    snapshots: {
      async save(_key, _pod, call) {
        calls.push(call);
        return await save(calls.length);
      },
      async dropCheckpoint(_key, { session }) {
        dropped.push(session);
        return true;
      },
      namesOf: async () => [...present],
      async setName(_key, { sha256, name }) {
        names.push(`${name} ${sha256}`);
        return outcome;
      },
    },
  });
  const labels = { [label.workload]: "w", [label.tenant]: "t" };
  const annotations = {
    ...{ [annotation.overlayDirs]: '["/data"]', [annotation.claimUid]: "claim-uid" },
    ...(idleTimeoutSeconds !== undefined && { [annotation.idleTimeoutSeconds]: idleTimeoutSeconds }),
  };
  const pod: Pod = {
    metadata: { name: "inst-t-w-1", uid: "pod-uid", labels, annotations },
    spec: { containers: [] },
    status: { containerStatuses: [running] },
  };
  api.add(pods, pod);
  const create = (given: WorkloadSpec["filesystem"]): void =>
    void api.add(workloads, {
      metadata: { name: "w" },
      spec: { image: { ref: "i" }, ...(given && { filesystem: given }) },
    });
  create(filesystem);
  const status = { phase: "Active" as const, claimedAt: new Date(BEGUN).toISOString() };
  api.add(claims, { metadata: { name: "c", uid: "claim-uid" }, spec: { tenantId: "t", workloadRef: "w" }, status });
  const claim = () => api.read(claims, "c");
  return {
    ...{ calls, context, dropped, events, names, claim, pod },
    setStatus: (status: ClaimStatus) => void api.add(claims, { ...claim(), status }),
    ask(request: string) {
      const { metadata, ...rest } = claim();
      const annotations = { ...metadata.annotations, [annotation.checkpoint]: request };
      api.add(claims, { ...rest, metadata: { ...metadata, annotations } });
    },
    condition: () => claim().status?.conditions?.find(({ type }) => type === "Checkpointed"),
    writes: () => api.calls.length,
    setInterval: (checkpointSeconds: number) => create({ overlayDirs: ["/data"], checkpointSeconds }),
    use(time: string) {
      const { metadata } = pod;
      Object.assign(metadata, { annotations: { ...metadata.annotations, [annotation.lastActivity]: time } });
    },
    /** Reconciles the claim whenever it asks for it, for so many seconds. */
    async pass(seconds: number): Promise<void> {
      const until = now + seconds * SECOND;
      while (now < until) {
        const result = await keepCheckpoints(claim(), pod, context);
        const isRunning = context.checkpoints.look("pod-uid")?.state === "running";
        for (let turns = 0; isRunning && turns < 20; turns += 1) await new Promise(setImmediate);
        if (!isRunning) now = Math.min(until, now + Math.max(1, result?.requeueAfterMs ?? until - now));
      }
    },
  };
}

test("the files of a session are saved once in each interval, which costs the API server no write", async () => {
  const { calls, pass, writes } = active({ filesystem: { overlayDirs: ["/data"], checkpointSeconds: 60 } });
  await pass(60);
  assert.is(calls.length, 1);
  await pass(600);
  assert.is(calls.length, 11);
  const { kind, session } = calls[0] ?? {};
  assert.equal([kind, session], ["checkpoint", "claim-uid"]);
  const reads = 11;
  assert.is(writes(), reads, "the pod's owner is read before each");
});

test("without an interval of its own the workload's is five minutes, and 0 is for none", async () => {
  const usual = active({ filesystem: { overlayDirs: ["/data"] } });
  await usual.pass(3000);
  assert.is(usual.calls.length, 10);
  const never = active({ filesystem: { overlayDirs: ["/data"], checkpointSeconds: 0 } });
  await never.pass(3000);
  assert.is(never.calls.length, 0);
});

test("a longer or shorter interval holds from then on", async () => {
  const { calls, pass, setInterval } = active({ filesystem: { overlayDirs: ["/data"], checkpointSeconds: 60 } });
  await pass(36_000);
  assert.is(calls.length, 600);
  for (const seconds of [300, 60]) {
    setInterval(seconds);
    const before = calls.length;
    await pass(3000);
    const expected = 3000 / seconds;
    assert.ok(Math.abs(calls.length - before - expected) <= 1, `${calls.length - before} of ${expected}`);
  }
});

test("a failed checkpoint is tried again soon, and the claim says so until one succeeds", async () => {
  let isFixed = false;
  const { calls, claim, condition, events, pass } = active({
    async save() {
      if (isFixed) return archive;
      throw new Error("tar: data/x: Permission denied");
    },
  });
  await pass(300);
  assert.ok(calls.length > 1, String(calls.length));
  assert.is(claim().status?.phase, "Active");
  assert.equal([condition()?.status, condition()?.reason], ["False", "CheckpointFailed"]);
  assert.match(condition()?.message ?? "", "data/x: Permission denied. The session goes on");
  await pass(600);
  assert.equal(
    events.map(({ reason }) => reason),
    ["CheckpointFailed"],
    "the same failure is told once",
  );
  isFixed = true;
  await pass(300);
  assert.is(condition()?.status, "True");
  assert.is(claim().status?.phase, "Active");
});

test("a checkpoint that a quota refuses is not tried again before the next is due", async () => {
  const { calls, condition, pass } = active({
    async save() {
      throw new QuotaError("there is no room");
    },
  });
  await pass(3000);
  assert.ok(calls.length <= 11, String(calls.length));
  assert.is(condition()?.status, "False");
});

test("an instance that is not used and has not changed is looked at ten times less often", async () => {
  const unchanged = async () => ({ ...archive, isUnchanged: true });
  const unused = active({ save: unchanged, idleTimeoutSeconds: "100000" });
  await unused.pass(300);
  assert.is(unused.calls.length, 1);
  await unused.pass(300 * 9);
  assert.is(unused.calls.length, 1);
  await unused.pass(300);
  assert.is(unused.calls.length, 2);
  unused.use("2026-01-01T01:00:00Z");
  await unused.pass(300);
  assert.is(unused.calls.length, 3, "it was used");
  const unknown = active({ save: unchanged });
  await unknown.pass(3000);
  assert.is(unknown.calls.length, 10, "its uses are not recorded");
});

test("a new operator goes on with the turns of the one before", async () => {
  const { calls, context, pass } = active();
  await pass(1000);
  const before = calls.length;
  context.podCheckpoints.clear();
  await pass(299);
  assert.ok(calls.length - before <= 1, `${calls.length - before} checkpoints in one interval`);
  await pass(301);
  assert.is(calls.length - before, 2);
});

test("a program that has ended is not looked at until it runs", async () => {
  const { calls, pass, pod } = active();
  Object.assign(pod, { status: { containerStatuses: [{ ...running, state: { waiting: {} } }] } });
  await pass(900);
  assert.is(calls.length, 0);
  Object.assign(pod, { status: { containerStatuses: [running] } });
  await pass(1);
  assert.is(calls.length, 1);
});

test("a checkpoint that is asked for is made at once, has the name, and is answered once", async () => {
  for (const checkpointSeconds of [300, 0]) {
    const stage = active({ filesystem: { overlayDirs: ["/data"], checkpointSeconds } });
    const { calls, claim, names, pass } = stage;
    const { sha256, sizeBytes, createdAt } = archive;
    stage.ask("before-upgrade");
    await pass(2);
    assert.equal([calls.length, calls[0]?.kind, names], [1, "checkpoint", [`before-upgrade ${sha256}`]]);
    assert.equal(claim().status?.checkpoint, { request: "before-upgrade", sha256, sizeBytes, createdAt });
    stage.ask("/1");
    await pass(2);
    assert.equal([calls.length, names.length, claim().status?.checkpoint?.request], [2, 1, "/1"]);
  }
});

test("a refused checkpoint says why, and is no failure of those that come by themselves", async () => {
  const long = `${"x".repeat(300)}/1`;
  const cases: [Options, string, string, number][] = [
    [{ outcome: "taken" }, "a/1", "NameTaken", 1],
    [{ present: ["a"] }, "a/1", "NameTaken", 0],
    [{ present: Array.from({ length: 20 }, (_, index) => `n${index}`) }, "a/1", "TooManyNames", 0],
    [{ outcome: "full" }, "a/1", "TooManyNames", 1],
    [{ outcome: "gone" }, "a/1", "CheckpointFailed", 1],
    [{ save: () => Promise.reject(new QuotaError("there is no room")) }, "a/1", "SnapshotQuotaExceeded", 1],
    [{ save: () => Promise.reject(new Error("no tar")) }, "/1", "CheckpointFailed", 1],
    [{}, "0123456789abcdef/1", "InvalidName", 0],
    [{}, "a b", "InvalidName", 0],
    [{}, long, "InvalidName", 0],
  ];
  for (const [options, request, reason, saves] of cases) {
    const stage = active(options);
    stage.ask(request);
    await stage.pass(3);
    const { checkpoint } = stage.claim().status ?? {};
    assert.equal([checkpoint?.reason, checkpoint?.sha256, stage.calls.length], [reason, undefined, saves], request);
    assert.is(checkpoint?.request, request.slice(0, 256));
    assert.ok((checkpoint?.message ?? "").length > 5);
    assert.equal([stage.condition(), stage.events], [undefined, []]);
  }
});

test("a request is carried out once, also if the status loses its answer or the interval changes", async () => {
  const stage = active();
  stage.ask("a/1");
  await stage.pass(2);
  const { checkpoint: _, ...pruned } = stage.claim().status ?? { phase: "Active" as const };
  stage.setStatus(pruned);
  await stage.pass(100);
  assert.is(stage.calls.length, 1);
  const saved = createDeferred<SavedSnapshot>();
  const slow = active({ save: () => saved.promise });
  slow.ask("a/1");
  const passing = slow.pass(2);
  await eventually(() => slow.calls.length === 1);
  slow.setInterval(60);
  saved.resolve(archive);
  await passing;
  assert.equal([slow.calls.length, slow.claim().status?.checkpoint?.request], [1, "a/1"]);
});

test("a checkpoint of an instance without files is refused, and none is made before its program runs", async () => {
  const stage = active();
  Object.assign(stage.pod.metadata, { annotations: { [annotation.claimUid]: "claim-uid" } });
  stage.ask("a/1");
  await stage.pass(2);
  assert.equal([stage.claim().status?.checkpoint?.reason, stage.calls.length], ["NoFiles", 0]);
  const starting = active();
  Object.assign(starting.pod, { status: { containerStatuses: [{ ...running, state: { waiting: {} } }] } });
  starting.ask("a/1");
  await starting.pass(2);
  assert.equal([starting.claim().status?.checkpoint, starting.calls.length], [undefined, 0]);
  Object.assign(starting.pod, { status: { containerStatuses: [running] } });
  await starting.pass(2);
  assert.is(starting.claim().status?.checkpoint?.request, "a/1");
});

test("what is given up is of the session alone that an instance was destroyed in", async () => {
  const { claim, context, dropped } = active();
  dropCheckpoint(claim(), context);
  const { status } = claim();
  dropCheckpoint({ ...claim(), status: { phase: "Active", ...status, sessionStart: 3 } }, context);
  await new Promise(setImmediate);
  assert.equal(dropped, ["claim-uid", "claim-uid.3"]);
});

test.run();
