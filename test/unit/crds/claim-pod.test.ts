// @runtimes bun node
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isPodOf, overlayIdOf, podAddress, podEndpoint } from "../../../crds/claims/claim-pod.ts";
import type { ContainerState, Pod, PodCondition, PodStatus } from "../../../crds/kubernetes.ts";

const test = suite("claim and pod");

const container = { name: "workload", image: "i" };
function pod(status: PodStatus, metadata: Partial<Pod["metadata"]> = {}): Pod {
  const containers = [
    { name: "proxy", image: "i" },
    { ...container, ports: [{ containerPort: 7070 }] },
  ];
  return { metadata: { name: "p", ...metadata }, spec: { containers }, status };
}
const condition = (type: string, status: PodCondition["status"]): PodCondition => ({ type, status });
const program = (state: ContainerState, name = "workload"): PodStatus => ({
  phase: "Running",
  podIP: "10.0.0.1",
  containerStatuses: [{ ...container, name, ready: false, restartCount: 0, state }],
});

test("podAddress: a running program has one, ready or not", () => {
  assert.is(podAddress(pod(program({ running: {} }))), "10.0.0.1");
  assert.is(podAddress(pod({ ...program({ running: {} }), conditions: [condition("Ready", "False")] })), "10.0.0.1");
});

test("podAddress: the sandbox decides where the kubelet tells of it", () => {
  for (const type of ["PodReadyToStartContainers", "PodHasNetwork"]) {
    const [there, gone] = [[condition(type, "True")], [condition(type, "False"), condition("Ready", "True")]];
    assert.is(podAddress(pod({ ...program({ terminated: { exitCode: 1 } }), conditions: there })), "10.0.0.1");
    // Its main process is killed first: its containers go on for a moment, and its address is given back next.
    assert.is(podAddress(pod({ ...program({ running: {} }), conditions: gone })), undefined);
  }
});

test("podAddress: where it does not, a program that does not run may have lost its sandbox", () => {
  for (const state of [{ terminated: { exitCode: 137 } }, { waiting: { reason: "ContainerCreating" } }])
    assert.is(podAddress(pod(program(state))), undefined);
  assert.is(podAddress(pod(program({ running: {} }, "proxy"))), undefined);
});

test("podAddress: a pod that is going, that has ended or has none yet has none", () => {
  const running = program({ running: {} });
  assert.is(podAddress(pod(running, { deletionTimestamp: "2026-01-01T00:00:00Z" })), undefined);
  for (const phase of ["Failed", "Succeeded"] as const) assert.is(podAddress(pod({ ...running, phase })), undefined);
  const { podIP: _, ...without } = running;
  assert.is(podAddress(pod(without)), undefined);
  assert.is(podAddress(pod({ ...running, podIP: "" })), undefined);
});

test("overlayIdOf: as the init container tells that made the directories, whatever its name", () => {
  const init = (message?: string) => ({
    ...{ name: "redirect", image: "i", ready: true, restartCount: 0 },
    state: { terminated: { exitCode: 0, ...(message !== undefined && { message }) } },
  });
  assert.is(overlayIdOf(pod({ initContainerStatuses: [init(), init("overlay 0123\n")] })), "0123");
  assert.is(overlayIdOf(pod({ initContainerStatuses: [init("else")] })), undefined);
  assert.is(overlayIdOf(pod({})), undefined);
});

test("podEndpoint: the port is the first of the workload's own container", () => {
  assert.equal(podEndpoint(pod(program({ running: {} }))), { host: "10.0.0.1", port: 7070 });
  assert.is(podEndpoint(pod({ phase: "Pending" })), undefined);
});

test("isPodOf: by name, claim uid and tenant, and by the files that the tenant was given", () => {
  const claim = {
    metadata: { name: "c", uid: "u" },
    spec: { tenantId: "a", workloadRef: "w" },
    status: { phase: "Active" as const, instanceId: "p" },
  };
  const bound = (uid: string, tenant: string, name = "p") =>
    pod(
      {},
      { name, uid: "pod", annotations: { "tenancy.dev/claim-uid": uid }, labels: { "tenancy.dev/tenant": tenant } },
    );
  assert.ok(isPodOf(bound("u", "a"), claim));
  for (const other of [bound("v", "a"), bound("u", "b"), bound("u", "a", "q"), pod({})])
    assert.not.ok(isPodOf(other, claim));

  const initContainerStatuses = [
    {
      ...{ name: "tenancy-tools", image: "i", ready: true, restartCount: 0 },
      state: { terminated: { exitCode: 0, message: "overlay 01" } },
    },
  ];
  const withFiles = { ...bound("u", "a"), status: { initContainerStatuses } };
  const given = (overlayId: string) => ({ ...claim, status: { ...claim.status, overlayId } });
  // Older operators made pods and claims without it.
  for (const [one, other] of [
    [withFiles, given("pod.01")],
    [withFiles, given("another.02")],
    [withFiles, claim],
    [bound("u", "a"), given("pod.01")],
  ] as const)
    assert.ok(isPodOf(one, other));
  assert.not.ok(isPodOf(withFiles, given("pod.02")));
});

test.run();
