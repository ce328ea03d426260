import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Workload } from "../../../crds/workload.ts";
import { renderBuildJob } from "../../../operator/builds/render-build.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";

const config = operatorConfig({ TENANCY_REGISTRY: "r.example/built" }).builds as BuildConfig;

function podOf(image: Workload["spec"]["image"]) {
  const workload: Workload = { metadata: { name: "w", uid: "u" }, spec: { image } };
  const spec = renderBuildJob(workload, { key: "0".repeat(64), tries: 0 }, config).spec.template.spec;
  return { context: spec?.initContainers?.[0], build: spec?.containers[0], spec };
}

/** As Kubernetes does it with the words of a command. */
function expand(word = ""): string {
  return word.replace(/\$\$|\$\(([A-Z_]+)\)/g, (found, name) => (found === "$$" ? "$" : `value of ${name}`));
}

test("renderBuildJob: what a person writes arrives as it is, and is no variable of the container", () => {
  const { build } = podOf({ dockerfile: "a$$b/$(CONFIG)", args: { A: "a$$b$(CONFIG)$(DOCKER_CONFIG)$" } });
  assert.equal(build?.command?.slice(6).map(expand), [
    "a$$b/$(CONFIG)",
    "--opt",
    "build-arg:A=a$$b$(CONFIG)$(DOCKER_CONFIG)$",
  ]);
  const git = { url: "https://git.example/$(A)/b", ref: "main", path: "$$/c", secretRef: { name: "s" } };
  const { context } = podOf({ dockerfile: "Dockerfile", context: { git } });
  assert.equal(context?.command?.slice(4).map(expand), [git.url, "main", "$$/c", "s"]);
});

test("renderBuildJob: a Job that nobody looks after ends, is not run again, and is deleted after 30 days", () => {
  const workload: Workload = { metadata: { name: "w", uid: "u" }, spec: { image: { dockerfile: "Dockerfile" } } };
  const { spec } = renderBuildJob(workload, { key: "0".repeat(64), tries: 0 }, { ...config, timeoutMs: 1500 });
  const { activeDeadlineSeconds, backoffLimit, ttlSecondsAfterFinished } = spec;
  assert.equal([activeDeadlineSeconds, backoffLimit, ttlSecondsAfterFinished], [2, 0, 30 * 86_400]);
  assert.is(spec.template.spec?.automountServiceAccountToken, false);
});

test("renderBuildJob: the scripts arrive as they are", () => {
  const git = { url: "https://git.example/a/b" };
  const { context, build } = podOf({ dockerfile: "Dockerfile", context: { git } });
  for (const script of [context?.command?.[2], build?.command?.[2]]) assert.is(expand(script), script);
});

test("renderBuildJob: a Git token is mounted where it is used, and a missing one keeps no pod waiting", () => {
  const git = { url: "https://git.example/a/b", secretRef: { name: "s" } };
  const { context, build, spec } = podOf({ dockerfile: "Dockerfile", context: { git } });
  assert.ok(context?.volumeMounts?.some(({ mountPath }) => mountPath === "/git"));
  assert.not.ok(build?.volumeMounts?.some(({ mountPath }) => mountPath === "/git"));
  const volume = spec?.volumes?.find(({ name }) => name === "git");
  assert.is(volume?.secret?.optional, true);
});

test("renderBuildJob: no token of a service account, no privilege but what a user namespace takes", () => {
  const { context, build, spec } = podOf({ dockerfile: "Dockerfile" });
  assert.is(spec?.automountServiceAccountToken, false);
  assert.is(context?.securityContext?.allowPrivilegeEscalation, false);
  assert.equal(context?.securityContext?.capabilities, { drop: ["ALL"] });
  assert.is(context?.securityContext?.seccompProfile?.type, "RuntimeDefault");
  assert.equal(build?.securityContext?.capabilities, { drop: ["ALL"], add: ["SETUID", "SETGID"] });
  for (const container of [context, build]) {
    const { runAsUser, runAsNonRoot, readOnlyRootFilesystem, privileged } = container?.securityContext ?? {};
    assert.equal([runAsUser, runAsNonRoot, readOnlyRootFilesystem, privileged], [1000, true, true, undefined]);
  }
});

test.run();
