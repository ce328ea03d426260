import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ContainerState, Pod, PodStatus } from "../../../crds/kubernetes.ts";
import { failureMessage, type PodState, podState } from "../../../operator/pod/pod-state.ts";

const test = suite("podState");

const scheduled = { type: "PodScheduled", status: "True" as const, lastTransitionTime: "2026-01-01T00:00:00Z" };

function pod(status: PodStatus, metadata: Partial<Pod["metadata"]> = {}): Pod {
  return { metadata: { name: "p", ...metadata }, spec: { containers: [{ name: "workload", image: "i" }] }, status };
}

function container(
  state: ContainerState,
  fields: { restartCount?: number; lastState?: ContainerState } = {},
): PodStatus {
  const containerStatuses = [{ name: "workload", ready: false, restartCount: 0, image: "i", state, ...fields }];
  return { phase: "Pending", conditions: [scheduled], containerStatuses };
}

const table: { name: string; pod: Pod; is: PodState["state"]; says?: RegExp }[] = [
  {
    name: "Ready with an address",
    pod: pod({ phase: "Running", podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] }),
    is: "ready",
  },
  {
    name: "Ready in a sandbox that has ended",
    pod: pod({
      phase: "Running",
      podIP: "10.0.0.1",
      conditions: [
        { type: "Ready", status: "True" },
        { type: "PodReadyToStartContainers", status: "False" },
      ],
    }),
    is: "starting",
  },
  {
    name: "Ready without an address",
    pod: pod({ phase: "Running", conditions: [scheduled, { type: "Ready", status: "True" }] }),
    is: "starting",
  },
  { name: "just created", pod: pod({}), is: "starting" },
  {
    name: "no node fits",
    pod: pod({
      conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "0/1 nodes" }],
    }),
    is: "unschedulable",
    says: /no node.*0\/1 nodes/,
  },
  {
    name: "no scheduler of its name runs",
    pod: { metadata: { name: "p" }, spec: { containers: [], schedulerName: "own" }, status: { phase: "Pending" } },
    is: "starting",
    says: /no scheduler named "own" .*spec\.scheduling\.schedulerName/,
  },
  { name: "pulling", pod: pod(container({ waiting: { reason: "ContainerCreating" } })), is: "starting" },
  {
    name: "the first failed pull",
    pod: pod(container({ waiting: { reason: "ErrImagePull", message: "no" } })),
    is: "starting",
    says: /image i cannot be pulled: no; it is tried again/,
  },
  {
    name: "pull given up for now",
    pod: pod(container({ waiting: { reason: "ImagePullBackOff", message: "not found" } })),
    is: "failed",
    says: /image i cannot be pulled: not found/,
  },
  { name: "image name refused", pod: pod(container({ waiting: { reason: "InvalidImageName" } })), is: "failed" },
  {
    name: "runs as root",
    pod: pod(
      container({
        waiting: {
          reason: "CreateContainerConfigError",
          message: "container has runAsNonRoot and image will run as root",
        },
      }),
    ),
    is: "needs-root",
  },
  {
    name: "a config map is missing",
    pod: pod(container({ waiting: { reason: "CreateContainerConfigError", message: 'configmap "x" not found' } })),
    is: "starting",
    says: /configmap "x" not found/,
  },
  {
    name: "ended once",
    pod: pod(container({ waiting: { reason: "CrashLoopBackOff" } }, { restartCount: 1 })),
    is: "starting",
  },
  {
    name: "ends again and again",
    pod: pod(
      container(
        { waiting: { reason: "CrashLoopBackOff" } },
        { restartCount: 2, lastState: { terminated: { exitCode: 7, message: "boom\n" } } },
      ),
    ),
    is: "failed",
    says: /exit code 7 \(boom\)/,
  },
  {
    name: "runs, not healthy yet",
    pod: pod(container({ running: {} })),
    is: "starting",
    says: /health check has not passed/,
  },
  {
    name: "being deleted, though Ready",
    pod: pod(
      { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] },
      { deletionTimestamp: "2026-01-01T00:00:00Z" },
    ),
    is: "lost",
  },
  {
    name: "evicted",
    pod: pod({ phase: "Failed", reason: "Evicted", message: "low on memory" }),
    is: "lost",
    says: /Evicted: low on memory/,
  },
  { name: "ended by itself", pod: pod({ phase: "Succeeded" }), is: "lost" },
];

for (const { name, pod, is, says } of table) {
  test(`${name}: ${is}`, () => {
    const state = podState(pod);
    assert.is(state.state, is);
    if (says !== undefined) assert.match("message" in state ? state.message : "", says);
  });
}

test("a program that has ended says how until it runs again, and one that waits for its image says nothing", () => {
  const endOf = (state: ContainerState, lastState: ContainerState = {}) => {
    const found = podState(pod(container(state, { restartCount: 1, lastState })));
    return found.state === "starting" ? found.end?.message : found.state;
  };
  const ended = { terminated: { exitCode: 3, reason: "Error" } };
  assert.is(endOf(ended), "exit code 3 (Error)");
  assert.is(endOf({ waiting: { reason: "CrashLoopBackOff" } }, ended), "exit code 3 (Error)");
  assert.is(endOf({ running: {} }, ended), undefined);
  assert.is(endOf({ waiting: { reason: "ContainerCreating" } }), undefined);
});

test("a start is timed from when a node took the pod", () => {
  const state = podState(pod(container({ running: {} })));
  assert.is(state.state === "starting" && state.since, scheduled.lastTransitionTime);
});

test("failureMessage says what to fix, and adds the hint to an image that cannot be pulled and to nothing else", () => {
  const message = "image i cannot be pulled: not found";
  const failed = { state: "failed", reason: "ImagePullFailed", message, fix: "it" } as const;
  assert.is(failureMessage(failed, { imagePullHint: "load it" }), `${message} (load it): fix it`);
  assert.is(failureMessage(failed, { imagePullHint: undefined }), `${message}: fix it`);
  const crash = { ...failed, reason: "CrashLooping" } as const;
  assert.is(failureMessage(crash, { imagePullHint: "load it" }), `${message}: fix it`);
});

test.run();
