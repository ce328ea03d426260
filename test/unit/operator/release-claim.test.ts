import { test } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus, ReleasedFiles } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, finalizer } from "../../../crds/labels.ts";
import { releaseClaim } from "../../../operator/claim/release-claim.ts";
import { testOperator } from "./test-operator.ts";

const name = "claim-t-w";
const podName = "inst-t-w-1";
const active: ClaimStatus = { phase: "Active", instanceId: podName, instanceUid: "pod-uid" };
const withFiles: ClaimStatus = { ...active, overlayId: "pod-uid.01" };
const snapshot = { sha256: "a".repeat(64), sizeBytes: 1, createdAt: "2026-11-26T00:00:00.000Z" };

/** A claim that is being deleted. */
function releasing(status: ClaimStatus, annotations: Record<string, string> = {}) {
  const { api, context, events } = testOperator();
  const metadata = { name, uid: "claim-uid", annotations, deletionTimestamp: "2026-11-26T00:00:00Z" };
  api.add(claims, {
    metadata: { ...metadata, finalizers: [finalizer.release, "example.com/stays"] },
    spec: { tenantId: "t", workloadRef: "w", resume: true },
    status,
  });
  const run = async () => {
    await releaseClaim(api.read(claims, name), context);
    return api.read(claims, name).status;
  };
  return { api, run, told: () => events.map(({ reason }) => reason) };
}

const gone: readonly (readonly [string, ClaimStatus, Record<string, string>, ReleasedFiles | undefined, string[]])[] = [
  ["its pod is gone, which nobody asked for", withFiles, {}, "notSaved", ["NotSaved"]],
  ["its pod was destroyed on purpose", withFiles, { [annotation.destroyed]: podName }, "discarded", []],
  ["its files were saved", { ...withFiles, phase: "Releasing", snapshot, files: "saved" }, {}, "saved", []],
  ["an operator of a version before has saved them", { ...withFiles, phase: "Releasing", snapshot }, {}, "saved", []],
  ["no file was changed", { ...withFiles, phase: "Releasing", snapshot, files: "unchanged" }, {}, "unchanged", []],
  ["they were given up", { ...withFiles, phase: "Releasing", files: "discarded" }, {}, "discarded", []],
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

test("releaseClaim says that files are given up, or lost, before the pod that had them goes", async () => {
  for (const [phase, changes, files] of [
    ["ReleaseFailed", { annotations: { [annotation.discard]: "true" } }, "discarded"],
    ["Releasing", { podStatus: { phase: "Failed" } }, "notSaved"],
  ] as const) {
    const claim = "annotations" in changes ? changes.annotations : {};
    const release = releasing({ ...withFiles, phase }, claim);
    let toldBefore: ReleasedFiles | undefined;
    release.api.add(pods, {
      metadata: {
        ...{
          name: podName,
          uid: "pod-uid",
          annotations: { [annotation.overlayDirs]: "[]", [annotation.claimUid]: "claim-uid" },
        },
      },
      spec: { containers: [] },
      ...("podStatus" in changes && { status: changes.podStatus }),
    });
    release.api.onNext("delete", () => {
      toldBefore = release.api.read(claims, name).status?.files;
    });
    await release.run();
    assert.is(toldBefore, files);
  }
});

test.run();
