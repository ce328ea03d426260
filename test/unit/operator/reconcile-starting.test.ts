import { test } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import type { Workload } from "../../../crds/workload.ts";
import { claimPods } from "../../../operator/claim/claim-pods.ts";
import { conclude } from "../../../operator/claim/conclude.ts";
import { reconcileStarting } from "../../../operator/claim/reconcile-starting.ts";
import type { PodState } from "../../../operator/pod/pod-state.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { TOOLS_CONTAINER } from "../../../operator/snapshots/pods/pod-tools.ts";
import { testOperator } from "../operator/test-operator.ts";
import { archive } from "../snapshots/helper-objects.ts";

const LONG_AGO = "2020-01-01T00:00:00Z";

function pod(annotations: Record<string, string> = {}, { tenant = "t", name = "p" } = {}): Pod {
  return {
    metadata: {
      ...{ name, namespace: "n", uid: `${name}-uid`, labels: { [label.tenant]: tenant } },
      annotations: {
        [annotation.source]: "pool+data",
        [annotation.claimedAt]: new Date().toISOString(),
        [annotation.claimUid]: "claim-uid",
        ...annotations,
      },
    },
    spec: { containers: [] },
  };
}

const workload: Workload = {
  metadata: { name: "w", namespace: "n", generation: 1 },
  spec: { image: { ref: "i" }, filesystem: { overlayDirs: ["/data"] } },
  status: { phase: "Ready", observedGeneration: 1 },
};

/** A claim that waits for its files, and all that is written to it. */
function waitingClaim(outcome: Promise<SnapshotMetadata | undefined> = new Promise(() => undefined)) {
  let restores = 0;
  const { api, context } = testOperator({
    snapshots: {
      restore() {
        restores += 1;
        return outcome;
      },
    },
  });
  api.add(workloads, workload);
  api.add(claims, {
    metadata: { name: "c", uid: "claim-uid" },
    spec: { tenantId: "t", workloadRef: "w", resume: true },
    status: { phase: "Pending" },
  });
  const claim = () => api.read(claims, "c");
  return {
    ...{ api, context, restored: () => restores },
    async supervise(state: PodState, of = pod()) {
      const present = claim();
      return conclude(present, await reconcileStarting({ claim: present, pod: of, state }, context), context);
    },
    written: () =>
      api.calls.flatMap(({ kind, body }) => (kind === claims.plural ? [(body as Required<Claim>).status] : [])),
    steps: () => context.timelines.of(claim(), "Active", new Date()).map(({ step }) => step),
    /** Names of the pod that the claim has, and of others that it had. */
    present() {
      const { current, stale } = claimPods(claim(), context);
      return { current: current?.metadata.name, stale: stale.map(({ metadata }) => metadata.name) };
    },
  };
}

test("reconcileStarting times a warm pod that waits for files from its binding, however long it had been there", async () => {
  const { supervise, written } = waitingClaim();
  const result = await supervise({ state: "starting", since: LONG_AGO, message: "its health check fails" });
  assert.ok((result?.requeueAfterMs ?? 0) > 0);
  assert.equal(written(), []);
  await supervise(
    { state: "starting", since: LONG_AGO, message: "its health check fails" },
    pod({ [annotation.claimedAt]: LONG_AGO }),
  );
  assert.is(written()[0]?.reason, "StartTimeout");
});

test("reconcileStarting waits as long as the workload says, also where that is longer than the operator's limit", async () => {
  const { supervise, written, context, api } = waitingClaim();
  const startTimeoutSeconds = context.config.startTimeoutMs / 1000 + 60;
  api.add(workloads, { ...workload, spec: { ...workload.spec, entrypoint: { startTimeoutSeconds } } });
  const starting: PodState = { state: "starting", since: LONG_AGO, message: "its health check fails" };
  const bound = pod({ [annotation.claimedAt]: LONG_AGO });
  bound.metadata.labels = { ...bound.metadata.labels, [label.workload]: "w" };
  context.serverNow = () => Date.parse(LONG_AGO) + startTimeoutSeconds * 1000 - 1;
  await supervise(starting, bound);
  assert.equal(written(), []);
  context.serverNow = () => Date.parse(LONG_AGO) + startTimeoutSeconds * 1000;
  await supervise(starting, bound);
  assert.match(written()[0]?.message ?? "", `not ready ${startTimeoutSeconds} s after`);
});

test("reconcileStarting counts a start by the API server's clock, not by this machine's", async () => {
  const { supervise, written, context } = waitingClaim();
  // As where this machine's clock is years ahead.
  context.serverNow = () => Date.parse(LONG_AGO) + 10_000;
  const starting: PodState = { state: "starting", since: LONG_AGO, message: "its health check fails" };
  const bound = pod({ [annotation.claimedAt]: LONG_AGO });
  const result = await supervise(starting, bound);
  assert.equal([result !== undefined, written().map(({ reason }) => reason)], [true, []]);
  context.serverNow = () => Date.parse(LONG_AGO) + context.config.startTimeoutMs;
  await supervise(starting, bound);
  assert.is(written()[0]?.reason, "StartTimeout");
});

test("reconcileStarting gives up a claim's files when the third pod is lost that they are restored into", async () => {
  const { supervise, written } = waitingClaim();
  for (let count = 0; count < 3; count += 1) await supervise({ state: "lost", message: "pod p ended (Evicted)" });
  assert.equal(
    written().map(({ phase, reason, podIncarnation }) => [phase, reason, podIncarnation]),
    [
      ["Pending", "RestoreInterrupted", 1],
      ["Pending", "RestoreInterrupted", 2],
      ["Error", "RestoreFailed", 3],
    ],
  );
  assert.match(written()[2]?.message ?? "", /Evicted.*The archive is kept/);
});

test("reconcileStarting restores into a pod that this term has bound, and replaces one that another has", async () => {
  const foreign = waitingClaim();
  await foreign.supervise({ state: "ready" });
  assert.equal([foreign.restored(), foreign.written()[0]?.podIncarnation], [0, 1]);
  const own = waitingClaim();
  own.context.ownPods.add("p-uid");
  await own.supervise({ state: "ready" });
  assert.equal([own.restored(), own.written()], [1, []]);
  // It had been scheduled and ready before anybody asked for it.
  assert.equal(own.steps(), ["FilesFrom", "Active"]);
});

test("reconcileStarting never restores a second time into a warm pod that was bound while a cold one was starting", async () => {
  for (const [error, phase] of [
    [new Error("the connection ended"), "Pending"],
    [new ArchiveError("Corrupt", "it is corrupt"), "Error"],
  ] as const) {
    const { api, context, present, restored, supervise, written } = waitingClaim(Promise.reject(error));
    const warm = api.add(pods, pod({ [annotation.incarnation]: "1" }, { name: "warm" }));
    api.add(pods, pod({ [annotation.source]: "cold+data", [annotation.incarnation]: "0" }, { name: "cold" }));
    assert.is(present().current, "warm");
    context.ownPods.add("warm-uid");
    await supervise({ state: "ready" }, warm);
    await new Promise((resolve) => setImmediate(resolve));
    await supervise({ state: "ready" }, warm);
    assert.equal([restored(), written()[0]?.phase, written()[0]?.podIncarnation], [1, phase, 2]);
    assert.equal(present(), { current: undefined, stale: ["warm", "cold"] });
  }
});

test("a claim in Error has no pod, also where a warm one that was bound for it shows only later", async () => {
  const { api, present, supervise, written } = waitingClaim();
  const annotations = { [annotation.source]: "cold+data", [annotation.claimedAt]: LONG_AGO };
  const cold = api.add(pods, pod(annotations, { name: "cold" }));
  await supervise({ state: "starting", since: LONG_AGO, message: "its health check fails" }, cold);
  assert.equal([written()[0]?.phase, written()[0]?.podIncarnation], ["Error", 1]);
  api.add(pods, pod({ [annotation.incarnation]: "1" }, { name: "warm" }));
  assert.equal(present(), { current: undefined, stale: ["cold", "warm"] });
});

test("reconcileStarting gives a claim whose cold pod no node can take a warm one, of a revision of its own", async () => {
  const { api, context, present, restored, supervise, written } = waitingClaim();
  const revisionOfCold = { [annotation.source]: "cold+data", [annotation.incarnation]: "0" };
  const cold = api.add(pods, pod(revisionOfCold, { name: "cold" }));
  const name = "inst-pool-w-abcdef";
  const rendered = renderPod(workload, { name, labels: { [label.pool]: "p" }, annotations: {} }, context.config);
  const warmed = { ...rendered, metadata: { ...rendered.metadata, uid: "warm" } };
  api.add(pods, { ...warmed, status: { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] } });
  await supervise({ state: "unschedulable", message: "no node can take the pod yet" }, cold);
  assert.equal([present(), written()], [{ current: name, stale: ["cold"] }, []]);
  const current = api.read(pods, name);
  const { [annotation.incarnation]: revision, [annotation.source]: source } = current.metadata.annotations ?? {};
  assert.equal([revision, source, context.ownPods.has("warm")], ["1", "pool+data", true]);
  await supervise({ state: "ready" }, current);
  assert.is(restored(), 1);
  await supervise({ state: "lost", message: "pod was evicted" }, current);
  assert.equal([written()[0]?.phase, present()], ["Pending", { current: undefined, stale: ["cold", name] }]);
});

test("reconcileStarting notes when a cold pod was scheduled, and when its files came", async () => {
  const { supervise, context, steps } = waitingClaim(Promise.resolve(archive));
  context.ownPods.add("p-uid");
  const cold = pod({ [annotation.source]: "cold+data" });
  const tools = { name: TOOLS_CONTAINER, ready: false, restartCount: 0, image: "busybox", state: { running: {} } };
  const waits: Pod = {
    ...cold,
    status: { conditions: [{ type: "PodScheduled", status: "True" }], initContainerStatuses: [tools] },
  };
  const starting = { state: "starting", since: undefined, message: "its files are brought" } as const;
  await supervise(starting, waits);
  assert.equal(steps(), ["Scheduled", "FilesFrom", "Active"]);
  await new Promise((resolve) => setImmediate(resolve));
  await supervise(starting, waits);
  assert.equal(steps(), ["Scheduled", "FilesFrom", "FilesTo", "Active"]);
});

test("reconcileStarting restores nothing into a pod that carries another tenant", async () => {
  const { context, restored, supervise, written } = waitingClaim();
  context.ownPods.add("p-uid");
  await supervise({ state: "ready" }, pod({}, { tenant: "T" }));
  assert.equal([restored(), written()[0]?.reason], [0, "RestoreInterrupted"]);
  assert.match(written()[0]?.message ?? "", 'carries the tenant "T", not "t"');
});

test.run();
