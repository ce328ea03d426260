import { test } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { pods as podResource } from "../../../crds/client/built-in-resources.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { createBackgroundWork } from "../../../operator/background-work.ts";
import { claimPods } from "../../../operator/claim/claim-pods.ts";
import { reconcileStarting } from "../../../operator/claim/reconcile-starting.ts";
import { createTimelines } from "../../../operator/claim/timeline.ts";
import { operatorConfig } from "../../../operator/config.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import { createStartExplanations } from "../../../operator/pod/explain-start.ts";
import type { PodState } from "../../../operator/pod/pod-state.ts";
import { createRefillPause } from "../../../operator/pool/refill-pause.ts";
import { TOOLS_CONTAINER } from "../../../operator/snapshots/pod-tools.ts";
import { silentLog } from "../silent-log.ts";

const LONG_AGO = "2020-01-01T00:00:00Z";

function pod(annotations: Record<string, string> = {}, tenant = "t"): Pod {
  return {
    metadata: {
      ...{ name: "p", namespace: "n", uid: "pod-uid", labels: { [label.tenant]: tenant } },
      annotations: {
        [annotation.source]: "pool+data",
        [annotation.claimedAt]: new Date().toISOString(),
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
const warmed: Pod = { metadata: { name: "inst-pool-w-abcdef", namespace: "n", uid: "warm" }, spec: { containers: [] } };

/** A claim that waits for its files, and all that is written to it. */
function waitingClaim(outcome: Promise<unknown> = new Promise(() => undefined), bound: Pod[] = [], pool: Pod[] = []) {
  const written: Partial<ClaimStatus>[] = [];
  let restores = 0;
  let claim: Claim = {
    metadata: { name: "c", namespace: "n", uid: "claim-uid" },
    spec: { tenantId: "t", workloadRef: "w", resume: true },
    status: { phase: "Pending" },
  };
  const context = {
    ownPods: new Set<string>(),
    restores: createBackgroundWork({ concurrency: 1 }),
    startExplanations: createStartExplanations(),
    refillPause: createRefillPause(),
    restoreFailures: new Map<string, number>(),
    reservedPods: new Set<string>(),
    timelines: createTimelines(),
    snapshots: {
      warm: () => undefined,
      restore: () => {
        restores += 1;
        return outcome;
      },
    },
    client: {
      async patch(resource: unknown, _reference: unknown, { body }: { body: Pod & { status: ClaimStatus } }) {
        if (resource === podResource) return { ...pool.pop(), metadata: { ...warmed.metadata, ...body.metadata } };
        written.push(body.status);
        claim = { ...claim, status: { ...claim.status, ...body.status } };
        return claim;
      },
    },
    informers: {
      claims: { put: () => undefined },
      pods: { store: { by: (index: string) => (index === "warm" ? pool : bound) }, put: (one: Pod) => bound.push(one) },
      workloads: { store: { get: () => workload } },
    },
    metrics: { claimErrors: { inc: () => undefined }, timeSnapshot: (_what: string, work: () => unknown) => work() },
    events: { record: () => undefined },
    config: operatorConfig({}),
    log: silentLog,
    enqueueClaim: () => undefined,
  };
  const supervise = (state: PodState, of = pod()) =>
    reconcileStarting({ claim, pod: of, state }, context as unknown as OperatorContext);
  const steps = () => context.timelines.of(claim, "Active", new Date()).map(({ step }) => step);
  const present = () => claimPods(claim, context as unknown as OperatorContext);
  return { supervise, written, context, restored: () => restores, steps, present };
}

test("reconcileStarting times a warm pod that waits for files from its binding, however long it had been there", async () => {
  const { supervise, written } = waitingClaim();
  const result = await supervise({ state: "starting", since: LONG_AGO, message: "its health check fails" });
  assert.ok((result?.requeueAfterMs ?? 0) > 0);
  assert.equal(written, []);
  await supervise(
    { state: "starting", since: LONG_AGO, message: "its health check fails" },
    pod({ [annotation.claimedAt]: LONG_AGO }),
  );
  assert.is(written[0]?.reason, "StartTimeout");
});

test("reconcileStarting gives up a claim's files when the third pod is lost that they are restored into", async () => {
  const { supervise, written } = waitingClaim();
  for (let count = 0; count < 3; count += 1) await supervise({ state: "lost", message: "pod p ended (Evicted)" });
  assert.equal(
    written.map(({ phase, reason, podIncarnation }) => [phase, reason, podIncarnation]),
    [
      ["Pending", "RestoreInterrupted", 1],
      ["Pending", "RestoreInterrupted", 2],
      ["Error", "RestoreFailed", 3],
    ],
  );
  assert.match(written[2]?.message ?? "", /Evicted.*The archive is kept/);
});

test("reconcileStarting restores into a pod that this term has bound, and replaces one that another has", async () => {
  const foreign = waitingClaim();
  await foreign.supervise({ state: "ready" });
  assert.equal([foreign.restored(), foreign.written[0]?.podIncarnation], [0, 1]);
  const own = waitingClaim();
  own.context.ownPods.add("pod-uid");
  await own.supervise({ state: "ready" });
  assert.equal([own.restored(), own.written], [1, []]);
  // It had been scheduled and ready before anybody asked for it.
  assert.equal(own.steps(), ["FilesFrom", "Active"]);
});

test("reconcileStarting never restores a second time into a warm pod that was bound while a cold one was starting", async () => {
  for (const [error, phase] of [
    [new Error("the connection ended"), "Pending"],
    [new ArchiveError("Corrupt", "it is corrupt"), "Error"],
  ] as const) {
    const warm = pod({ [annotation.incarnation]: "1" });
    const cold = pod({ [annotation.source]: "cold+data", [annotation.incarnation]: "0" });
    const { context, present, restored, supervise, written } = waitingClaim(Promise.reject(error), [cold, warm]);
    assert.is(present().current, warm);
    context.ownPods.add("pod-uid");
    await supervise({ state: "ready" }, warm);
    await new Promise((resolve) => setImmediate(resolve));
    await supervise({ state: "ready" }, warm);
    assert.equal([restored(), written[0]?.phase, written[0]?.podIncarnation], [1, phase, 2]);
    assert.equal(present(), { current: undefined, stale: [cold, warm] });
  }
});

test("a claim in Error has no pod, also where a warm one that was bound for it shows only later", async () => {
  const cold = pod({ [annotation.source]: "cold+data", [annotation.claimedAt]: LONG_AGO });
  const bound = [cold];
  const { present, supervise, written } = waitingClaim(undefined, bound);
  await supervise({ state: "starting", since: LONG_AGO, message: "its health check fails" }, cold);
  assert.equal([written[0]?.phase, written[0]?.podIncarnation], ["Error", 1]);
  const warm = pod({ [annotation.incarnation]: "1" });
  bound.push(warm);
  assert.equal(present(), { current: undefined, stale: [cold, warm] });
});

test("reconcileStarting gives a claim whose cold pod no node can take a warm one, of a revision of its own", async () => {
  const cold = pod({ [annotation.source]: "cold+data", [annotation.incarnation]: "0" });
  const { context, present, restored, supervise, written } = waitingClaim(undefined, [cold], [warmed]);
  await supervise({ state: "unschedulable", message: "no node can take the pod yet" }, cold);
  const { current, stale } = present();
  assert.equal([current?.metadata.name, stale, written], [warmed.metadata.name, [cold], []]);
  const { [annotation.incarnation]: revision, [annotation.source]: source } = current?.metadata.annotations ?? {};
  assert.equal([revision, source, context.ownPods.has("warm")], ["1", "pool+data", true]);
  await supervise({ state: "ready" }, current);
  assert.is(restored(), 1);
  await supervise({ state: "lost", message: "pod was evicted" }, current);
  assert.equal([written[0]?.phase, present()], ["Pending", { current: undefined, stale: [cold, current] }]);
});

test("reconcileStarting notes when a cold pod was scheduled, and when its files came", async () => {
  const { supervise, context, steps } = waitingClaim(Promise.resolve({ sha256: "0" }));
  context.ownPods.add("pod-uid");
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
  context.ownPods.add("pod-uid");
  await supervise({ state: "ready" }, pod({}, "T"));
  assert.equal([restored(), written[0]?.reason], [0, "RestoreInterrupted"]);
  assert.match(written[0]?.message ?? "", 'carries the tenant "T", not "t"');
});

test.run();
