import { test } from "uvu";
import * as assert from "uvu/assert";
import {
  renderSnapshotsClaim,
  renderSnapshotsPod,
  renderSnapshotsPolicy,
} from "../../../operator/snapshots/helper-pod.ts";
import { overlayRoots } from "../../../operator/snapshots/overlay-pod.ts";
import { podTools, RESTORE_GATE, TOOLS_FOLDER } from "../../../operator/snapshots/pod-tools.ts";

const image = "tools:1";

test("podTools adds nothing to a pod without overlay directories", () => {
  assert.equal(podTools({ image, overlayDirs: [], diskGb: 1 }), { initContainers: [], volumes: [], volumeMounts: [] });
});

test("podTools gives the workload its directories and the tools read-only, by one init container without rights", () => {
  const { initContainers, volumes, volumeMounts } = podTools({ image, overlayDirs: ["/data", "/home/a"], diskGb: 3 });
  assert.is(initContainers.length, 1);
  const [init] = initContainers;
  assert.equal(init?.securityContext?.capabilities, { drop: ["ALL"] });
  assert.is(init?.securityContext?.runAsNonRoot, true);
  assert.equal(init?.volumeMounts?.length, 1, "no tenant's files before they are asked for");
  assert.not.ok(init?.command?.join("\n").includes(`cat ${RESTORE_GATE}`));
  assert.equal(
    volumeMounts.map(({ mountPath, readOnly }) => [mountPath, readOnly ?? false]),
    [
      [TOOLS_FOLDER, true],
      ["/data", false],
      ["/home/a", false],
    ],
  );
  assert.equal(
    volumes.slice(1).map(({ emptyDir }) => emptyDir?.sizeLimit),
    ["3Gi", "3Gi"],
  );
});

test("podTools lets the init container wait as the user whose files come", () => {
  const { initContainers } = podTools({ image, overlayDirs: ["/data"], diskGb: 3, restoreAs: { uid: 0, gid: 5 } });
  const [init] = initContainers;
  assert.equal([init?.securityContext?.runAsUser, init?.securityContext?.runAsGroup], [0, 5]);
  assert.is(init?.securityContext?.runAsNonRoot, false);
  assert.equal(
    init?.volumeMounts?.map(({ mountPath }) => mountPath),
    [TOOLS_FOLDER, "/data"],
  );
  assert.match(init?.command?.at(-1) ?? "", /mkfifo/);
});

test("overlayRoots names each directory once, none inside another, in bytes", () => {
  assert.equal(overlayRoots(["/data/", "/data", "/data/sub", "/database", "/é"]), ["data", "database", "\xc3\xa9"]);
  for (const bad of ["", "/", "data", "/a/../b", "/./a", "/a//b", "/a\0b"]) {
    assert.throws(() => overlayRoots([bad]), /not the path of a directory/);
  }
});

test("the snapshots volume has the size and class asked for, and the cluster's own class without one", () => {
  assert.is(renderSnapshotsClaim({ namespace: "n", size: "5Gi" }).spec.storageClassName, undefined);
  const { spec } = renderSnapshotsClaim({ namespace: "n", size: "5Gi", storageClass: "" });
  assert.is(spec.storageClassName, "");
  assert.equal(spec.resources, { requests: { storage: "5Gi" } });
});

test("the helper pod is no instance, has no rights, and its policy selects it", () => {
  const pod = renderSnapshotsPod({ namespace: "n", image });
  assert.is(pod.metadata.labels?.["tenancy.dev/managed"], undefined);
  assert.is(pod.spec.automountServiceAccountToken, false);
  assert.equal(pod.spec.containers[0]?.securityContext?.capabilities, { drop: ["ALL"] });
  const { podSelector } = renderSnapshotsPolicy({ namespace: "n" }).spec;
  assert.equal(podSelector.matchLabels, pod.metadata.labels);
});

test.run();
