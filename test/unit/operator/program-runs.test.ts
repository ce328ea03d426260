import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import type { ContainerState, Pod } from "../../../crds/kubernetes.ts";
import { annotation, claimLabels, finalizer, label } from "../../../crds/labels.ts";
import { createClaimController } from "../../../operator/claim/controller.ts";
import { claimedPodState, createProgramRuns } from "../../../operator/pod/program-runs.ts";
import { reconcileMember } from "../../../operator/pool/reconcile-member.ts";
import { testOperator } from "./test-operator.ts";
import { running, STARTED, unprobedPod } from "./unprobed-program.ts";

const test = suite("programs without a probe");

function clock() {
  let now = 0;
  const programRuns = createProgramRuns({ now: () => now });
  return {
    programRuns,
    pass(ms: number) {
      now += ms;
    },
  };
}

test("a program that no probe checks counts as ready once this run of it has lasted 2 s since the first look", () => {
  const { programRuns, pass } = clock();
  const look = (pod: Pod) => {
    const { state, againInMs } = claimedPodState(pod, { programRuns });
    return [state.state, againInMs];
  };
  assert.equal(look(unprobedPod(running)), ["starting", 2000]);
  pass(1500);
  assert.equal(look(unprobedPod(running)), ["starting", 500]);
  const later: ContainerState = { running: { startedAt: "2026-01-01T00:00:01Z" } };
  assert.equal(look(unprobedPod(later, { restartCount: 1 })), ["starting", 2000]);
  pass(2000);
  assert.equal(look(unprobedPod(later, { restartCount: 1 })), ["ready", undefined]);
});

test("where a probe decides, or the pool has seen the run last, nothing is waited for", () => {
  const { programRuns } = clock();
  const proven = unprobedPod(running, { annotations: { [annotation.provenRun]: `0@${STARTED}` } });
  const probed = unprobedPod(running);
  for (const container of probed.spec.containers) container.readinessProbe = { tcpSocket: { port: 8080 } };
  for (const pod of [proven, probed]) assert.is(claimedPodState(pod, { programRuns }).state.state, "ready");
});

/** A claim with a cold pod of a workload without health and ports. */
function coldClaim(phase: "Pending" | "Active") {
  const { programRuns, pass } = clock();
  const { api, context, events } = testOperator({ programRuns });
  const spec = { tenantId: "t", workloadRef: "w" };
  api.add(workloads, {
    metadata: { name: "w", generation: 1 },
    spec: { image: { ref: "i" } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  const active: ClaimStatus = {
    ...{ phase, instanceId: "p", instanceUid: "p-uid" },
    endpoint: { host: "10.0.0.1", port: 8080 },
  };
  api.add(claims, {
    metadata: { name: "c", uid: "c-uid", finalizers: [finalizer.release], labels: claimLabels(spec) },
    ...{ spec, status: phase === "Active" ? active : { phase } },
  });
  const annotations = {
    ...{ [annotation.claimUid]: "c-uid", [annotation.claim]: "c", [annotation.incarnation]: "0" },
    [annotation.source]: "cold",
  };
  const labels = {
    ...{ [label.managed]: "true", [label.tenant]: "t", [label.workload]: "w" },
    [label.binding]: "c-uid.0",
  };
  return {
    ...{ pass, events },
    async see(state: ContainerState, restartCount = 0) {
      api.add(pods, unprobedPod(state, { annotations, labels, restartCount }));
      return createClaimController(context).reconcile("n/c", { signal: new AbortController().signal });
    },
    status: () => api.read(claims, "c").status,
    condition: () => api.read(claims, "c").status?.conditions?.find(({ type }) => type === "Ready"),
  };
}

test("a claim is Active when the program of its cold pod has run for 2 s", async () => {
  const { see, pass, status } = coldClaim("Pending");
  const first = await see(running);
  assert.is(status()?.phase, "Pending");
  assert.ok(first !== undefined && first.requeueAfterMs <= 2000);
  pass(2000);
  await see(running);
  assert.is(status()?.phase, "Active");
});

test("a claim whose program exits with 3 each time before 2 s have passed is never Active, and fails as CrashLooping", async () => {
  const { see, pass, status } = coldClaim("Pending");
  const ended = { exitCode: 3, reason: "Error", startedAt: STARTED };
  for (const restarts of [0, 1, 2]) {
    await see({ running: { startedAt: `2026-01-01T00:01:0${restarts}Z` } }, restarts);
    pass(1200);
    await see({ terminated: ended }, restarts);
    assert.is(status()?.phase, "Pending");
  }
  await see({ waiting: { reason: "CrashLoopBackOff" } }, 2);
  assert.equal([status()?.phase, status()?.reason], ["Error", "CrashLooping"]);
});

test("a program that ends under an Active claim shows in its condition and an Event, until the next one has run", async () => {
  const { see, pass, status, condition, events } = coldClaim("Active");
  await see({ terminated: { exitCode: 3, reason: "Error", message: "no config\n" } });
  const { status: is, reason, message = "" } = condition() ?? {};
  assert.equal([status()?.phase, is, reason], ["Active", "False", "ProgramEnded"]);
  assert.match(message, "exit code 3 (no config)");
  const again: ContainerState = { running: { startedAt: "2026-01-01T00:01:00Z" } };
  const result = await see(again, 1);
  assert.equal([condition()?.status, (result?.requeueAfterMs ?? 0) <= 2000], ["False", true]);
  pass(2000);
  await see(again, 1);
  assert.equal([condition()?.status, status()?.reason, status()?.message], ["True", undefined, undefined]);
  assert.equal(
    events.map(({ reason }) => reason),
    ["ProgramEnded"],
  );
});

test("a program that ends again and again changes an Active claim's reason once, not at each end", async () => {
  const { see, status, events } = coldClaim("Active");
  for (const restarts of [0, 1, 2, 3]) {
    await see({ terminated: { exitCode: 3 } }, restarts);
    await see({ waiting: { reason: "CrashLoopBackOff" } }, restarts);
  }
  assert.is(status()?.reason, "CrashLooping");
  assert.equal(
    events.map(({ reason }) => reason),
    ["ProgramEnded", "CrashLooping"],
  );
});

/** A warm pod of a pool, as its label and annotations say. */
function member(metadata: { labelled?: string; proven?: string } = {}) {
  const { programRuns, pass } = clock();
  const { api, context } = testOperator({ programRuns });
  api.add(pools, { metadata: { name: "pool" }, spec: { workloadRef: "w", size: 1 } });
  const name = "inst-pool-w-abcdef";
  const pod = unprobedPod(running, {
    ...{ name, uid: "warm" },
    labels: {
      [label.managed]: "true",
      [label.workload]: "w",
      [label.pool]: "pool",
      [label.poolStatus]: metadata.labelled ?? "warming",
    },
    annotations: metadata.proven === undefined ? {} : { [annotation.provenRun]: metadata.proven },
  });
  api.add(pods, pod);
  return {
    pass,
    reconcile: () => reconcileMember(api.read(pods, name), "pool", context),
    label: () => api.read(pods, name).metadata.labels?.[label.poolStatus],
    warm: () => context.informers.pods.store.by("warm", "w").size,
  };
}

test("a warm pod without a probe can be claimed when its program has run for 2 s, which one write says", async () => {
  const { pass, reconcile, label, warm } = member();
  assert.equal(await reconcile(), { requeueAfterMs: 2000 });
  assert.equal([label(), warm()], ["warming", 0]);
  pass(2000);
  await reconcile();
  assert.equal([label(), warm()], ["ready", 1]);
});

test("a warm pod whose program was started again waits as at first; one that an older operator labelled does not", async () => {
  const restarted = member({ labelled: "ready", proven: "0@2025-01-01T00:00:00Z" });
  assert.is(restarted.warm(), 0);
  assert.equal(await restarted.reconcile(), { requeueAfterMs: 2000 });
  assert.is(restarted.label(), "warming");
  const older = member({ labelled: "ready" });
  assert.equal([await older.reconcile(), older.label(), older.warm()], [undefined, "ready", 1]);
});

test.run();
