import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { overlayRoots } from "../../../crds/archive/overlay-roots.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import {
  type HelperProgram,
  isHelperOutdated,
  renderSnapshotsClaim,
  renderSnapshotsPod,
  renderSnapshotsPolicy,
} from "../../../operator/snapshots/helper-pod.ts";
import {
  podTools,
  RESTORE_GATE,
  TOOLS_FOLDER,
  TOOLS_IMAGE_BUSYBOX,
  TOOLS_IMAGE_INSIDE,
} from "../../../operator/snapshots/pods/pod-tools.ts";
import { staticBusybox } from "./static-busybox.ts";

const image = "tools:1";

test("podTools adds nothing to a pod without overlay directories", () => {
  assert.equal(podTools({ image, overlayDirs: [], diskGb: 1 }), { initContainers: [], volumes: [], volumeMounts: [] });
  const asked = podTools({ image, overlayDirs: [], diskGb: 1, isAsked: true });
  assert.equal(asked.initContainers.length, 1);
  assert.equal(asked.volumeMounts, [{ name: "tenancy-tools", mountPath: "/.tenancy", readOnly: true }]);
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

test("podTools names the directories anew when they are made anew, and only then", () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-overlay-id-"));
  const { initContainers } = podTools({ image, overlayDirs: ["/data"], diskGb: 1 });
  const script = (initContainers[0]?.command?.at(-1) ?? "")
    .replaceAll(TOOLS_IMAGE_BUSYBOX, staticBusybox)
    .replaceAll(TOOLS_FOLDER, join(folder, "tools"))
    .replaceAll("/dev/termination-log", join(folder, "message"));
  const start = (): string => {
    mkdirSync(join(folder, "tools"), { recursive: true });
    execFileSync(staticBusybox, ["sh", "-c", script]);
    return readFileSync(join(folder, "message"), "utf8");
  };
  const first = start();
  assert.match(first, /^overlay [0-9a-f]{32}\n$/);
  assert.is(start(), first);
  rmSync(join(folder, "tools"), { recursive: true });
  assert.is.not(start(), first);
  rmSync(join(folder, "message"));
  mkdirSync(join(folder, "message"));
  // Where it cannot be told, the pod starts as well.
  execFileSync(staticBusybox, ["sh", "-c", script]);
  rmSync(folder, { recursive: true });
});

test("podTools copies inside read-only, over an earlier copy, and starts without it if the image lacks it", () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-inside-"));
  const [tools, inImage] = [join(folder, "tools"), join(folder, "inside")];
  const { initContainers } = podTools({ image, overlayDirs: [], diskGb: 1, launcherFolder: "/run/tenancy" });
  const script = (initContainers[0]?.command?.at(-1) ?? "")
    .replaceAll(TOOLS_IMAGE_BUSYBOX, staticBusybox)
    .replaceAll(TOOLS_IMAGE_INSIDE, inImage)
    .replaceAll(TOOLS_FOLDER, tools);
  const start = () => execFileSync(staticBusybox, ["sh", "-c", script]);
  mkdirSync(tools);
  start();
  assert.not.ok(existsSync(join(tools, "inside")));
  for (const content of ["first", "second"]) {
    writeFileSync(inImage, content);
    start();
    assert.is(readFileSync(join(tools, "inside"), "utf8"), content);
    assert.is(statSync(join(tools, "inside")).mode & 0o777, 0o555);
  }
  rmSync(inImage);
  start();
  assert.not.ok(existsSync(join(tools, "inside")), "the earlier copy is removed");
  rmSync(folder, { recursive: true });
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
  const pod = renderSnapshotsPod({ namespace: "n", program: { image }, logLevel: "info" });
  assert.is(pod.metadata.labels?.["tenancy.dev/managed"], undefined);
  assert.is(pod.spec.automountServiceAccountToken, false);
  assert.equal(pod.spec.containers[0]?.securityContext?.capabilities, { drop: ["ALL"] });
  const { podSelector } = renderSnapshotsPolicy({ namespace: "n", access: "direct" }).spec;
  assert.equal(podSelector.matchLabels, pod.metadata.labels);
});

test("the helper pod runs the operator's image, or a program that a ConfigMap brings to Node", () => {
  const render = (program: HelperProgram) => renderSnapshotsPod({ namespace: "n", program, logLevel: "info" });
  const own = render({ image: "operator:1", pullSecrets: [{ name: "pull" }] });
  const [container] = own.spec.containers;
  assert.equal([container?.command, container?.args], [undefined, ["snapshots"]]);
  assert.equal(own.spec.imagePullSecrets, [{ name: "pull" }]);
  const brought = render({ image: "node:1", configMap: "program-1" });
  assert.equal(brought.spec.containers[0]?.command, ["node", "/program/snapshots.mjs"]);
  assert.ok(brought.spec.volumes?.some(({ configMap }) => configMap?.name === "program-1"));
});

test("a helper pod is outdated when its image, its program or its configuration is another", () => {
  const programs = [
    { image: "a:1" },
    { image: "a:2" },
    { image: "a:1", configMap: "p-1" },
    { image: "a:1", configMap: "p-2" },
  ];
  const pods = programs.map((program) => renderSnapshotsPod({ namespace: "n", program, logLevel: "info" }));
  pods.push(renderSnapshotsPod({ namespace: "n", program: { image: "a:1" }, logLevel: "debug" }));
  for (const pod of pods) {
    assert.equal(
      pods.filter((other) => !isHelperOutdated(pod, other)),
      [pod],
    );
  }
  // One of an earlier version says nothing of its template.
  const [pod] = pods as [Pod];
  assert.is(isHelperOutdated({ ...pod, metadata: { name: "tenancy-snapshots" } }, pod), true);
});

test("operator and edges alone reach the helper pod directly, and whoever has the token by the API server", () => {
  const [direct] = renderSnapshotsPolicy({ namespace: "n", access: "direct" }).spec.ingress ?? [];
  assert.equal(
    direct?.from?.map(({ podSelector }) => podSelector?.matchLabels),
    [{ "app.kubernetes.io/name": "tenancy-operator" }, { "app.kubernetes.io/component": "edge" }],
  );
  const [byServer] = renderSnapshotsPolicy({ namespace: "n", access: "api-server" }).spec.ingress ?? [];
  assert.equal(byServer, { ports: [{ port: 8443, protocol: "TCP" }] });
});

test.run();
