// A pod with a session's files that somebody else deletes: saved first, and the claim goes on with another one.
import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { keyOf } from "../../../crds/client/watch/store.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, claimLabels, finalizer, label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { createClaimController } from "../../../operator/claim/controller.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import type { SavedSnapshot } from "../../../operator/snapshots/save-pod.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { archive } from "../snapshots/helper-objects.ts";
import { onS3, testOperator } from "./test-operator.ts";

const name = "claim-t-w";
const podName = "inst-t-w-1";
const spec = { tenantId: "t", workloadRef: "w" };
const saved: SavedSnapshot = { ...archive, sha256: "b".repeat(64), podUid: "pod-uid.01" };
const active: ClaimStatus = {
  ...{ phase: "Active", instanceId: podName, instanceUid: "pod-uid", overlayId: "pod-uid.01" },
  endpoint: { host: "10.0.0.1", port: 8080 },
};

function session(
  snapshots: Partial<Snapshots> = {},
  { annotations = {}, hasLauncher = true }: { annotations?: Record<string, string>; hasLauncher?: boolean } = {},
) {
  const given = { find: async () => undefined, stopProgram: async () => "stopped" as const };
  const { api, context, events } = testOperator({ env: onS3, snapshots: { ...given, ...snapshots } });
  context.exec = async () => ({ exitCode: 0, stderr: "" });
  const metadata = { name, uid: "claim-uid", annotations, labels: claimLabels(spec), finalizers: [finalizer.release] };
  api.add(claims, { metadata, spec, status: active });
  const workload: Workload = {
    metadata: { name: "w", uid: "workload-uid" },
    spec: {
      image: { ref: "i" },
      entrypoint: { cmd: "run" },
      filesystem: { overlayDirs: ["/data"], saveWhileRunning: !hasLauncher },
    },
  };
  const identity = {
    name: podName,
    labels: { [label.tenant]: "t", [label.binding]: "claim-uid.0" },
    annotations: {
      ...{ [annotation.claimUid]: "claim-uid", [annotation.claim]: name, [annotation.incarnation]: "0" },
    },
  };
  const pod = renderPod(workload, identity, context.config);
  Object.assign(pod.metadata, {
    uid: "pod-uid",
    deletionTimestamp: "2026-11-26T00:02:00Z",
    deletionGracePeriodSeconds: 120,
  });
  pod.status = {
    phase: "Running",
    containerStatuses: [
      { name: WORKLOAD_CONTAINER, ready: true, restartCount: 0, image: "", imageID: "", state: { running: {} } },
    ],
  };
  api.add(pods, pod);
  const { reconcile } = createClaimController(context);
  const run = async (): Promise<Claim["status"]> => {
    await reconcile(keyOf(api.read(claims, name)), { signal: new AbortController().signal });
    for (let turns = 0; turns < 20; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    return api.read(claims, name).status;
  };
  const told = () => events.map(({ reason, type }) => `${type} ${reason}`);
  return { api, run, told };
}

test("a deleted pod is saved, and the claim's next pod gets what was saved", async () => {
  let saves = 0;
  const { run, told } = session({
    async save() {
      saves += 1;
      return saved;
    },
  });
  const moving = await run();
  assert.equal(
    [moving?.phase, moving?.reason, moving?.endpoint, moving?.instanceId],
    ["Pending", "Moving", undefined, podName],
  );
  await run(); // Its program is stopped.
  await run(); // Its files are saved.
  const next = await run();
  assert.equal([next?.phase, next?.reason, next?.instanceId], ["Pending", "Moved", undefined]);
  assert.equal([next?.sessionSnapshot, next?.podIncarnation, saves], [saved.sha256, 1, 1]);
  assert.equal(told(), ["Normal Moved"]);
});

test("a pod that ended before its files were saved is lost, unless another operator has saved them", async () => {
  for (const [found, reason, files] of [
    [undefined, "PodLost", undefined],
    [{ ...saved, podUid: "other.01" }, "PodLost", undefined],
    [saved, "Moved", saved.sha256],
  ] as const) {
    const { api, run } = session({ find: async () => found, save: () => new Promise(() => undefined) });
    await run();
    api.remove(pods, podName);
    const next = await run();
    assert.equal([next?.reason, next?.sessionSnapshot], [reason, files]);
  }
});

test("a step whose write was done and not answered gets its Event all the same, and one that was not done gets none", async () => {
  for (const isDone of [true, false]) {
    const { api, run, told } = session({}, { hasLauncher: false });
    api.onNext(
      "patch",
      async ({ body }) => {
        if (isDone) await api.client.patch(claims, { name }, { type: "merge", body, subresource: "status" });
        throw new NetworkError("the connection was cut", { requestWasSent: true });
      },
      claims,
    );
    await run().catch((error: unknown) => assert.instance(error, NetworkError));
    assert.equal(told(), []);
    // Somebody else changed it: nothing is done for a claim that is an error.
    if (!isDone) api.add(claims, { ...api.read(claims, name), status: { ...active, phase: "Error" } });
    await run();
    assert.is(told()[0], isDone ? "Warning PodLost" : undefined);
  }
});

test("a pod without a launcher is lost at once, and a destroyed one is not saved", async () => {
  const plain = session({}, { hasLauncher: false });
  assert.is((await plain.run())?.reason, "PodLost");
  const destroyed = session({}, { annotations: { [annotation.destroyed]: podName } });
  const left = await destroyed.run();
  assert.equal([left?.phase, left?.reason, left?.endpoint], ["Active", undefined, undefined]);
});

test.run();
