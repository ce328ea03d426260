// The start of a program that starts with its claim.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { keyOf } from "../../../crds/client/watch/store.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import type { ContainerState, Pod } from "../../../crds/kubernetes.ts";
import { annotation, claimLabels, finalizer, label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { poolInstanceName } from "../../../crds/names.ts";
import type { Workload } from "../../../crds/workload.ts";
import { InputsMissing } from "../../../operator/claim/claim-inputs.ts";
import { createClaimController } from "../../../operator/claim/controller.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("a program that starts with its claim");
const name = "claim-t-w";
const podName = "inst-t-w-1";
const spec = { tenantId: "t", workloadRef: "w" };
const RUNNING = { running: { startedAt: "2026-01-01T00:00:00Z" } };
const BOUND = Date.parse("2026-01-01T00:00:00Z");

/** A pod of the claim, bound long ago, whose program can be started as often as it is asked for. */
function session(
  claimStatus: Claim["status"] = { phase: "Pending" },
  { inputs, start: mode = "OnClaim" }: { inputs?: Claim["spec"]["inputs"]; start?: "Warm" | "OnClaim" } = {},
) {
  const { api, context, events } = testOperator();
  let now = BOUND + 3_600_000;
  const starts: { succeed: () => void; fail: (error: Error) => void }[] = [];
  const start = () => new Promise<void>((succeed, fail) => starts.push({ succeed, fail }));
  context.programStarter = { ...context.programStarter, start };
  context.serverNow = () => now;
  const metadata = { name, uid: "claim-uid", labels: claimLabels(spec), finalizers: [finalizer.release] };
  api.add(claims, { metadata, spec: { ...spec, ...(inputs && { inputs }) }, status: claimStatus });
  const workload: Workload = {
    metadata: { name: "w", uid: "workload-uid", generation: 1 },
    spec: { image: { ref: "i" }, entrypoint: { cmd: "run", start: mode }, ...(mode === "Warm" && { health: {} }) },
  };
  const annotations = {
    ...{ [annotation.claimUid]: "claim-uid", [annotation.claim]: name, [annotation.incarnation]: "0" },
    ...{ [annotation.source]: "pool", [annotation.claimedAt]: new Date(BOUND).toISOString() },
  };
  const labels = { [label.tenant]: "t", [label.binding]: "claim-uid.0" };
  const pod = renderPod(workload, { name: podName, labels, annotations }, context.config);
  Object.assign(pod.metadata, { uid: "pod-uid" });
  /** Shows a run of the container. */
  const show = (restartCount: number, ready = true, state: ContainerState = RUNNING, shown = pod): void => {
    const own = { name: WORKLOAD_CONTAINER, ready, restartCount, image: "", imageID: "", state };
    const conditions = [
      { type: "Ready", status: ready ? "True" : "False" },
      { type: "PodScheduled", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" },
    ];
    const status = { phase: "Running", podIP: "10.0.0.1", conditions, containerStatuses: [own] };
    api.add(pods, { ...shown, status } as Pod);
  };
  show(0);
  const { reconcile } = createClaimController(context);
  const run = async () => {
    const result = await reconcile(keyOf(api.read(claims, name)), { signal: new AbortController().signal });
    await new Promise((resolve) => setImmediate(resolve));
    return { ...result, status: api.read(claims, name).status };
  };
  return { run, show, starts, api, workload, context, events, pass: (ms: number) => (now += ms) };
}

test("its limit counts from its start, and not from the binding or while its files came", async () => {
  const { run, starts, context, pass } = session();
  const { startTimeoutMs } = context.config;
  assert.is((await run()).status?.phase, "Pending");
  pass(startTimeoutMs - 1);
  assert.is((await run()).status?.phase, "Pending");
  assert.is(starts.length, 1);
  pass(1);
  const { status } = await run();
  assert.equal([status?.phase, status?.reason], ["Error", "StartTimeout"]);
});

test("while it starts its pod may be unready, and is not left for that", async () => {
  const { run, show, starts } = session();
  await run();
  show(0, false);
  assert.is((await run()).status?.phase, "Pending");
  starts[0]?.succeed();
  await run();
  assert.is((await run()).status?.phase, "Pending", "its probe has failed");
  show(0);
  const { status } = await run();
  assert.equal([status?.phase, status?.programRun], ["Active", "0@2026-01-01T00:00:00Z"]);
  assert.is(starts.length, 1);
});

test("a program that ends at once does not take the next warm pod", async () => {
  const { run, show, starts, api, workload, context } = session();
  await run();
  starts[0]?.fail(new Error("exit code 3"));
  api.add(workloads, { ...workload, status: { phase: "Ready", observedGeneration: 1 } });
  const warmName = poolInstanceName({ workload: "w", suffix: "a" });
  const labels = { [label.pool]: "w", [label.poolStatus]: "ready" };
  const warm = renderPod(workload, { name: warmName, labels, annotations: {} }, context.config);
  Object.assign(warm.metadata, { uid: "warm-uid" });
  show(0, true, RUNNING, warm);
  show(1, false, { waiting: { reason: "CrashLoopBackOff" } });
  const { status } = await run();
  assert.is(status?.phase, "Pending");
  assert.is(api.read(pods, warmName).metadata.labels?.[label.binding], undefined);
});

test("a claim with inputs fails where its program has started without them, or they break a rule", async () => {
  const inputs = { env: { TENANCY_A: "1" } };
  const refused = session(undefined, { inputs });
  await refused.run();
  const { status } = await refused.run();
  assert.equal([status?.phase, status?.reason], ["Error", "InvalidInputs"]);
  assert.match(status?.message ?? "", /"TENANCY_A" is a name of the service.*then claim again$/);
  assert.is(refused.starts.length, 0);
  const warm = session(undefined, { inputs: { env: { A: "1" } }, start: "Warm" });
  const { status: failed } = await warm.run();
  assert.equal([failed?.phase, failed?.reason], ["Error", "InvalidInputs"]);
  assert.match(failed?.message ?? "", "set the workload's entrypoint.start to OnClaim");
});

test("a claim with inputs leaves a pod whose launcher is too old for them, and takes no such warm pod", async () => {
  const { run, api, starts, workload, context } = session(undefined, { inputs: { env: { A: "1" } } });
  const claimed = api.read(pods, podName);
  const [container = { name: "" }] = claimed.spec.containers;
  const command = container.command?.map((part) => part.replace("-takes-inputs", "")) ?? [];
  api.add(pods, { ...claimed, spec: { ...claimed.spec, containers: [{ ...container, command }] } });
  api.add(workloads, { ...workload, status: { phase: "Ready", observedGeneration: 1 } });
  const warmName = poolInstanceName({ workload: "w", suffix: "a" });
  const labels = { [label.pool]: "w", [label.poolStatus]: "ready" };
  const warm = renderPod(workload, { name: warmName, labels, annotations: {} }, context.config);
  Object.assign(warm.metadata, { uid: "warm-uid" });
  Object.assign(warm.metadata.annotations ?? {}, { [annotation.templateHash]: "older" });
  api.add(pods, { ...warm, status: claimed.status } as Pod);
  const { status } = await run();
  assert.equal([status?.reason, status?.podIncarnation], ["PodLost", 1]);
  await run();
  assert.is(starts.length, 0);
  assert.is(api.read(pods, warmName).metadata.labels?.[label.binding], undefined);
});

test("an Active claim says why its program cannot be started again", async () => {
  const active = { phase: "Active", instanceId: podName, instanceUid: "pod-uid", programRun: "before" } as const;
  const endpoint = { host: "10.0.0.1", port: 8080 };
  const inputs = { secretRef: { name: "gone" } };
  const { run, starts, context, events } = session({ ...active, endpoint }, { inputs });
  await run();
  for (const attempt of [0, 1, 2]) {
    starts[attempt]?.fail(new InputsMissing("spec.inputs: Secret gone does not exist: create it"));
    await new Promise((resolve) => setImmediate(resolve));
    assert.is((await run()).status?.reason, "InvalidInputs");
    context.programStarts.retryNow("pod-uid");
    const { status } = await run();
    assert.equal([status?.phase, status?.reason], ["Active", "InvalidInputs"], "also while it is tried again");
    assert.match(status?.message ?? "", /cannot be started again: .*Secret gone does not exist: create it$/);
  }
  assert.is(events.length, 1);
  starts[3]?.succeed();
  await new Promise((resolve) => setImmediate(resolve));
  assert.is((await run()).status?.reason, undefined);
});

test("it is started in each run of its container once, also by another operator", async () => {
  const first = "0@2026-01-01T00:00:00Z";
  const active = { phase: "Active", instanceId: podName, instanceUid: "pod-uid", programRun: first } as const;
  const { run, show, starts } = session({ ...active, endpoint: { host: "10.0.0.1", port: 8080 } });
  await run();
  assert.is(starts.length, 0);
  show(1);
  await run();
  starts[0]?.fail(new Error("the connection was cut"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(((await run()).requeueAfterMs ?? 0) > 0, "it is tried again");
  const other = session({ ...active, endpoint: { host: "10.0.0.1", port: 8080 } });
  other.show(1);
  await other.run();
  other.starts[0]?.succeed();
  await new Promise((resolve) => setImmediate(resolve));
  assert.is((await other.run()).status?.programRun, first.replace("0@", "1@"));
  await other.run();
  assert.is(other.starts.length, 1);
});

test.run();
