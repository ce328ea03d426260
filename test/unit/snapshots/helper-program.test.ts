import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { findHelperProgram } from "../../../operator/snapshots/helper-program.ts";
import { testOperator } from "../operator/test-operator.ts";

const test = suite("findHelperProgram");

function find(env: Record<string, string>, containers: { name: string; image: string }[] = []) {
  const { api, context } = testOperator({ env });
  api.add(pods, {
    metadata: { name: "tenancy-operator-1" },
    spec: { containers, imagePullSecrets: [{ name: "pull" }] },
  });
  return findHelperProgram(context);
}

test("is what is configured, with a program that a ConfigMap brings or as the image's own", async () => {
  const configured = { TENANCY_SNAPSHOT_IMAGE: "other:1", TENANCY_POD_NAME: "tenancy-operator-1" };
  assert.equal(await find(configured), { image: "other:1", configMap: undefined });
  const brought = { TENANCY_SNAPSHOT_IMAGE: "node:1", TENANCY_SNAPSHOT_PROGRAM: "tenancy-snapshots-1" };
  assert.equal(await find(brought), { image: "node:1", configMap: "tenancy-snapshots-1" });
});

test("else it is the image of the operator's own container, pulled as that is", async () => {
  const containers = [
    { name: "sidecar", image: "sidecar:1" },
    { name: "operator", image: "registry.example/operator:7" },
  ];
  const found = await find({ TENANCY_POD_NAME: "tenancy-operator-1" }, containers);
  assert.equal(found, { image: "registry.example/operator:7", pullSecrets: [{ name: "pull" }] });
});

test("an operator outside of the cluster has to be told", async () => {
  const error = await find({}).catch((thrown: unknown) => thrown);
  assert.match(String(error), /set TENANCY_SNAPSHOT_IMAGE to the operator's image, or TENANCY_POD_NAME to its pod/);
});

test.run();
