import { test } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus, ReleasedFiles } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { ObjectMeta, PodStatus } from "../../../crds/kubernetes.ts";
import { annotation, finalizer, label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { releaseClaim } from "../../../operator/claim/release-claim.ts";
import { launchCommand } from "../../../operator/launcher/launch-command.ts";
import type { SavedSnapshot } from "../../../operator/snapshots/save-pod.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { archive } from "../snapshots/helper-objects.ts";
import { onS3, testOperator } from "./test-operator.ts";

const name = "claim-t-w";
const podName = "inst-t-w-1";
const active: ClaimStatus = { phase: "Active", instanceId: podName, instanceUid: "pod-uid" };
const withFiles: ClaimStatus = { ...active, overlayId: "pod-uid.01" };
const expiresAt = "2026-11-26T00:00:00Z";
const snapshot = { sha256: "a".repeat(64), sizeBytes: 1, createdAt: "2026-11-26T00:00:00.000Z" };
const newest = { ...archive, ...snapshot };

/** A claim that is being deleted. */
function releasing(
  status: ClaimStatus,
  annotations: Record<string, string> = {},
  { find = async () => undefined, ...snapshots }: Partial<Snapshots> = {},
) {
  const { api, context, events } = testOperator({ env: onS3, snapshots: { find, ...snapshots } });
  const metadata = { name, uid: "claim-uid", annotations, deletionTimestamp: "2026-11-26T00:00:00Z" };
  api.add(claims, {
    metadata: { ...metadata, finalizers: [finalizer.release, "example.com/stays"] },
    spec: { tenantId: "t", workloadRef: "w", resume: true, expiresAt },
    status,
  });
  const run = async () => {
    await releaseClaim(api.read(claims, name), context);
    return api.read(claims, name).status;
  };
  /** Adds or changes the pod. */
  const setPod = (pod: PodStatus, metadata: Partial<ObjectMeta> = {}) =>
    api.add(pods, {
      metadata: {
        ...{ name: podName, uid: "pod-uid", labels: { [label.tenant]: "t" } },
        annotations: { [annotation.overlayDirs]: "[]", [annotation.claimUid]: "claim-uid" },
        ...metadata,
      },
      spec: { containers: [] },
      status: pod,
    });
  return { api, context, run, setPod, told: () => events.map(({ reason }) => reason), events };
}

const gone: readonly (readonly [string, ClaimStatus, Record<string, string>, ReleasedFiles | undefined, string[]])[] = [
  ["its pod is gone", withFiles, {}, "notSaved", ["NotSaved"]],
  ["its pod was destroyed on purpose", withFiles, { [annotation.destroyed]: podName }, "discarded", []],
  ["they were given up, and its pod was gone first", withFiles, { [annotation.discard]: "true" }, "discarded", []],
  ["it was idle, and its pod was gone first", withFiles, { [annotation.discardIdleSince]: "x" }, "discarded", []],
  ["it expired, and its pod was gone first", withFiles, { [annotation.discardExpired]: expiresAt }, "discarded", []],
  ["it was extended after it had expired", withFiles, { [annotation.discardExpired]: "x" }, "notSaved", ["NotSaved"]],
  ["its files were saved", { ...withFiles, phase: "Releasing", snapshot, files: "saved" }, {}, "saved", []],
  ["an operator of a version before has saved them", { ...withFiles, phase: "Releasing", snapshot }, {}, "saved", []],
  ["no file was changed", { ...withFiles, phase: "Releasing", snapshot, files: "unchanged" }, {}, "unchanged", []],
  ["they were given up", { ...withFiles, phase: "Releasing", files: "discarded" }, {}, "discarded", []],
  ["its pod was taken away and saved first", { phase: "Pending", sessionSnapshot: "a" }, {}, "saved", []],
  ["its next pod was lost too", { ...withFiles, sessionSnapshot: "a" }, {}, "notSaved", ["NotSaved"]],
  ["it keeps no files", active, {}, undefined, []],
];
for (const [what, status, annotations, files, told] of gone) {
  test(`releaseClaim says what became of the files once no pod is left: ${what}`, async () => {
    const release = releasing(status, annotations);
    const left = await release.run();
    assert.equal([left?.phase, left?.files, release.told()], ["Released", files, told]);
    // The finalizer of another keeps the claim: it is not told again.
    await release.run();
    assert.equal(release.told(), told);
  });
}

test("releaseClaim ends a claim once, also if the cache still shows it", async () => {
  const { api, context, run } = releasing(active);
  await run();
  const shown = api.read(claims, name);
  const stale = { ...shown, metadata: { ...shown.metadata, finalizers: [finalizer.release] } };
  const before = api.calls.length;
  await releaseClaim(stale, context);
  assert.is(api.calls.length, before);
});

const checkpoint = { ...archive, sha256: "c".repeat(64), kind: "checkpoint", session: "claim-uid" } as const;
const between: readonly (readonly [string, Record<string, string>, SnapshotMetadata | undefined, object])[] = [
  ["says that a checkpoint is left", {}, checkpoint, { files: "notSaved", told: ["NotSaved"], dropped: [] }],
  [
    "deletes the checkpoint of what is given up",
    { [annotation.discard]: "true" },
    checkpoint,
    { files: "discarded", told: [], dropped: ["claim-uid"] },
  ],
  ["says nothing of files that never were", {}, undefined, { files: undefined, told: [], dropped: [] }],
];
for (const [what, annotations, found, expected] of between) {
  test(`releaseClaim of a session that has lost its pod and has no other yet ${what}`, async () => {
    const dropped: string[] = [];
    const { run, told, events } = releasing({ phase: "Pending", podIncarnation: 1 }, annotations, {
      findCheckpoint: async () => found,
      async dropCheckpoint(_key, { session }) {
        dropped.push(session);
        return true;
      },
    });
    const left = await run();
    await new Promise(setImmediate);
    assert.is(left?.phase, "Released");
    assert.equal({ files: left?.files, told: told(), dropped }, expected);
    if (told().length > 0) assert.match(events[0]?.message ?? "", 'claim with resume {"version": "cccccccccccccccc"}');
  });
}

test("releaseClaim says that files are given up, or lost, before the pod that had them goes", async () => {
  for (const [phase, annotations, podPhase, files] of [
    ["ReleaseFailed", { [annotation.discard]: "true" }, "Running", "discarded"],
    ["Active", { [annotation.discardExpired]: expiresAt }, "Running", "discarded"],
    ["Releasing", {}, "Failed", "notSaved"],
  ] as const) {
    const release = releasing({ ...withFiles, phase }, annotations);
    release.setPod({ phase: podPhase });
    let toldBefore: ReleasedFiles | undefined;
    release.api.onNext("delete", () => {
      toldBefore = release.api.read(claims, name).status?.files;
    });
    await release.run();
    assert.is(toldBefore, files);
  }
});

test("releaseClaim does not save a destroyed pod that is still ending", async () => {
  const release = releasing(withFiles, { [annotation.destroyed]: podName });
  const command = launchCommand({ program: "run", args: [], stopGraceSeconds: 20 });
  const state = { running: {} };
  const status = { name: WORKLOAD_CONTAINER, ready: true, restartCount: 0, image: "", imageID: "", state };
  const pod = release.setPod(
    { phase: "Running", containerStatuses: [status] },
    { deletionTimestamp: "2026-11-26T00:00:01Z", deletionGracePeriodSeconds: 1 },
  );
  pod.spec.containers = [{ name: WORKLOAD_CONTAINER, command }];
  assert.is((await release.run())?.files, "discarded");
});

test("releaseClaim finds a save whose end nobody saw by the newest archive, where the pod is gone or another leads", async () => {
  for (const podUid of ["pod-uid.01", "pod-uid"]) {
    const release = releasing(withFiles, {}, { find: async () => ({ ...newest, podUid }) });
    const left = await release.run();
    assert.equal([left?.files, left?.snapshot, release.told()], ["saved", snapshot, []]);
  }
  const other = releasing(withFiles, {}, { find: async () => ({ ...newest, podUid: "pod-uid.02" }) });
  assert.equal([(await other.run())?.files, other.told()], ["notSaved", ["NotSaved"]]);
  const unknown = releasing(withFiles, {}, { find: () => Promise.reject(new Error("503 SlowDown")) });
  assert.is((await unknown.run())?.files, "notSaved");
  assert.match(
    unknown.events[0]?.message ?? "",
    /as far as is known, since the newest archive could not be looked at$/,
  );
});

const running: PodStatus = { phase: "Running", podIP: "10.0.0.1", conditions: [] };
const turn = () => new Promise((resolve) => setImmediate(resolve));

test("releaseClaim waits for the end of a save whose pod is evicted or deleted meanwhile", async () => {
  for (const change of [
    (release: ReturnType<typeof releasing>) => release.setPod({ phase: "Failed", reason: "Evicted" }),
    (release: ReturnType<typeof releasing>) => release.setPod(running, { deletionTimestamp: "2026-11-26T00:00:01Z" }),
  ]) {
    for (const when of ["before its end", "after its end"]) {
      let end = (_saved: SavedSnapshot): void => undefined;
      const save = () => new Promise<SavedSnapshot>((resolve) => (end = resolve));
      const release = releasing(withFiles, {}, { save, runPreSave: async () => undefined });
      release.setPod(running);
      await release.run();
      for (let turns = 0; turns < 20; turns += 1) await turn();
      if (when === "before its end") {
        change(release);
        assert.is((await release.run())?.files, undefined, when);
        end(newest);
      } else {
        end(newest);
        await turn();
        change(release);
      }
      for (let turns = 0; turns < 5; turns += 1) await turn();
      const left = await release.run();
      assert.equal([left?.files, left?.snapshot, release.told()], ["saved", snapshot, []], when);
    }
  }
});

test.run();
