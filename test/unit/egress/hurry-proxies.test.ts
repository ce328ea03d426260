import { test } from "uvu";
import * as assert from "uvu/assert";
import { pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { ensureEgress } from "../../../operator/workload/ensure-egress.ts";
import { testOperator } from "../operator/test-operator.ts";

const headers = [{ name: "a", valueFrom: { secretKeyRef: { name: "vault", key: "token" } } }];
const workload: Workload = {
  metadata: { name: "w", namespace: "n", uid: "u", generation: 1 },
  spec: {
    image: { ref: "a" },
    network: { access: "restricted", allowlist: ["a.example"], credentials: [{ domain: "b.example", headers }] },
  },
  status: { phase: "Ready", observedGeneration: 1 },
};

/** A workload with three pods on nodes and one that waits for a node, and how many of them a run writes to. */
async function started() {
  const { api, context } = testOperator({ env: { TENANCY_PROXY_IMAGE: "proxy:1" } });
  let now = Date.parse("2026-01-01T00:00:00Z");
  context.serverNow = () => now;
  api.add(workloads, workload);
  const vault = (labels: Record<string, string>) =>
    api.add(secrets, { metadata: { name: "vault", namespace: "n", labels }, type: "Opaque" });
  vault({});
  for (const name of ["a", "b", "c", "waits"]) {
    const pod = renderPod(workload, { name: `inst-${name}`, labels: {}, annotations: {} }, context.config);
    api.add(pods, { ...pod, spec: { ...pod.spec, ...(name !== "waits" && { nodeName: "node" }) } } as Pod);
  }
  const run = async (of: Workload = workload): Promise<number> => {
    const before = api.calls.length;
    await ensureEgress(of, context);
    return api.calls.slice(before).filter(({ verb, kind }) => verb === "patch" && kind === "pods").length;
  };
  return { run, vault, context, api, pass: (ms: number) => (now += ms) };
}

test("pods on nodes are hurried once for each change of their proxy's settings, and for nothing else", async () => {
  const { run, api, pass } = await started();
  assert.is(await run(), 0, "the pods came after the settings");
  assert.is(await run(), 0);
  const changed = {
    ...workload,
    metadata: { ...workload.metadata, generation: 2 },
    spec: { ...workload.spec, network: { ...workload.spec.network, allowlist: ["c.example"] } },
  };
  assert.is(await run(changed), 3);
  assert.is(await run(changed), 0);
  pass(3_600_000);
  assert.is(await run(changed), 0);
  assert.is(api.read(pods, "inst-waits").metadata.annotations?.[annotation.egressSettings], undefined);
});

test("a Secret that is refused hurries them once, not at each look at it", async () => {
  const { run, vault, pass } = await started();
  await run();
  vault({ "tenancy.dev/use": "trigger" });
  pass(3_600_000);
  assert.is(await run(), 3);
  for (let looks = 0; looks < 3; looks += 1) {
    pass(60_000);
    assert.is(await run(), 0);
  }
});

test.run();
