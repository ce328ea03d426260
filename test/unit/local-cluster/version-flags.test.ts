import { test } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { schedulerFlags } from "../../../scripts/cluster/node/create-local-cluster.ts";
import { kubeletConfig, kubeletFlags } from "../../../scripts/cluster/node/kubelet-config.ts";
import { slotOf } from "../../../scripts/cluster/slot.ts";

const certificate = { certificate: "", key: "", certificatePath: "/pki/kubelet.crt", keyPath: "/pki/kubelet.key" };
const authority = { certificate: "", certificatePath: "/pki/ca.crt", issue: async () => certificate };

function config(version: string): Record<string, unknown> {
  const options = { slot: slotOf(3), authority, certificate, containerdSocket: "/run/c.sock", controlGroup: "group" };
  return parse(kubeletConfig({ version, ...options })) as Record<string, unknown>;
}

function flags(version: string): string[] {
  return kubeletFlags({
    ...{
      version,
      nodeName: "node",
      nodeAddress: "10.231.3.1",
      configPath: "/k/config",
      kubeconfigPath: "/k/kubeconfig",
    },
    ...{ folder: "/k", containerdSocket: "/run/c.sock" },
  });
}

for (const [version, minimum, expected] of [
  ["v1.34.10", "1.24", true],
  ["v1.20.2", "1.24", false],
  ["v1.24.0-rc.1", "1.24", true],
  ["v2.0.0", "1.24", true],
  ["1.9", "1.10", false],
] as const) {
  test(`versionAtLeast tells ${expected} of ${version} and ${minimum}`, () => {
    assert.is(versionAtLeast(version, minimum), expected);
  });
}

test("versionAtLeast refuses what is no version", () => {
  assert.throws(() => versionAtLeast("latest", "1.24"), /Cannot read "latest"/);
});

test("kubeletFlags names the runtime on the command line of old kubelets only", () => {
  assert.ok(flags("v1.20.2").includes("--container-runtime=remote"));
  assert.not.ok(flags("v1.34.10").some((flag) => flag.startsWith("--container-runtime")));
  assert.is(config("v1.20.2").containerRuntimeEndpoint, undefined);
  assert.is(config("v1.34.10").containerRuntimeEndpoint, "unix:///run/c.sock");
});

test("kubeletConfig lets kubelets that know the setting run on control groups of version 1", () => {
  assert.is(config("v1.34.10").failCgroupV1, false);
  assert.is("failCgroupV1" in config("v1.20.2"), false);
});

test("kubeletConfig keeps the pods below the cluster's own control group", () => {
  assert.is(config("v1.34.10").cgroupRoot, "/group");
});

test("schedulerFlags turns the unencrypted port off where there is one", () => {
  const options = { folder: "/pki", port: 20_002, kubeconfigPath: "/kubeconfig" };
  assert.ok(schedulerFlags({ version: "v1.20.2", ...options }).includes("--port=0"));
  assert.not.ok(schedulerFlags({ version: "v1.34.10", ...options }).includes("--port=0"));
});

test.run();
