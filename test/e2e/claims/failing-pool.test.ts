// @limit 1800
import { spawnSync } from "node:child_process";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { type Stack, startStack } from "./stack.ts";

const test = suite("pools of real containers that fail");
let stack: Stack;
let kubectlPath: string;

test.before(async () => {
  kubectlPath = await findKubectl();
  stack = await startStack("e2e-failing-pool");
});
test.after(async () => {
  await stack?.interrupt();
});

function apply(object: object): void {
  const { status, stderr } = spawnSync(kubectlPath, ["--kubeconfig", stack.kubeconfigPath, "apply", "-f", "-"], {
    input: JSON.stringify({ apiVersion: "tenancy.dev/v1alpha1", ...object }),
    encoding: "utf8",
  });
  assert.is(status, 0, stderr);
}

function applyWorkload(args: string[]): void {
  apply({
    kind: "TenancyWorkload",
    metadata: { name: "brief", namespace: "tenancy" },
    spec: {
      image: { ref: "localhost/tenancy-hello:1" },
      resources: { memoryMb: 64 },
      network: { ports: [8080] },
      entrypoint: { cmd: "/bin/sh", args },
    },
  });
}

const wait = (condition: string) =>
  stack.kubectl("wait", "tenancypool/brief", `--for=condition=${condition}`, "--timeout=400s");

// Without a health check each of its pods is ready for a moment.
test("a pool whose program ends at once is Degraded with an Event, and Ready when the workload is mended", async () => {
  applyWorkload(["-c", "exit 3"]);
  apply({
    kind: "TenancyPool",
    metadata: { name: "brief", namespace: "tenancy" },
    spec: { workloadRef: "brief", size: 2 },
  });
  await wait("Degraded");
  const message = await stack.kubectl("get", "tp/brief", "-o", "jsonpath={.status.phase} {.status.message}");
  assert.match(message, /^Degraded the container ends again and again; last: exit code 3/);
  const events = await stack.kubectl(
    "get",
    "events",
    "--field-selector",
    "involvedObject.kind=TenancyPool",
    "-o",
    "json",
  );
  const reasons = (JSON.parse(events) as { items: { reason: string; type: string }[] }).items;
  assert.equal(
    reasons.map(({ reason, type }) => `${type} ${reason}`),
    ["Warning PodsFail"],
  );
  applyWorkload(["-c", "exec sleep 100000"]);
  await wait("Ready");
  assert.match(await stack.kubectl("get", "tp/brief", "-o", "jsonpath={.status.conditions[2]}"), /"status":"False"/);
});

test.run();
