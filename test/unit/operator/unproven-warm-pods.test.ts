import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import { annotation, claimLabels, finalizer, label } from "../../../crds/labels.ts";
import { createClaimController } from "../../../operator/claim/controller.ts";
import { createProgramRuns } from "../../../operator/pod/program-runs.ts";
import { isolationHash, templateHash } from "../../../operator/pod/render-pod.ts";
import { testOperator } from "./test-operator.ts";
import { running, unprobedPod } from "./unprobed-program.ts";

const test = suite("warm pods of an older operator");

test("a claim keeps the one that it took while its program is proven, and takes no other", async () => {
  let now = 0;
  const { api, context } = testOperator({ programRuns: createProgramRuns({ now: () => now }) });
  const spec = { tenantId: "t", workloadRef: "w" };
  const workload = {
    metadata: { name: "w", namespace: "n", generation: 1 },
    spec: { image: { ref: "i" } },
    status: { phase: "Ready" as const, observedGeneration: 1 },
  };
  api.add(workloads, workload);
  for (const suffix of ["aaaaaa", "bbbbbb", "cccccc"]) {
    const labels = {
      ...{ [label.managed]: "true", [label.workload]: "w" },
      ...{ [label.pool]: "pool", [label.poolStatus]: "ready" },
    };
    const annotations = {
      [annotation.templateHash]: templateHash(workload, context.config) ?? "",
      [annotation.isolation]: isolationHash(workload, context.config) ?? "",
    };
    api.add(pods, unprobedPod(running, { name: `inst-pool-w-${suffix}`, uid: suffix, labels, annotations }));
  }
  api.add(claims, {
    metadata: { name: "c", uid: "c-uid", finalizers: [finalizer.release], labels: claimLabels(spec) },
    ...{ spec, status: { phase: "Pending" as const } },
  });
  const { reconcile } = createClaimController(context);
  const run = () => reconcile("n/c", { signal: new AbortController().signal });
  for (let i = 0; i < 8; i += 1) await run();
  assert.is(context.informers.pods.store.by("warm", "w").size, 2);
  assert.is(context.informers.pods.store.by("claimUid", "c-uid").size, 1);
  now += 2000;
  await run();
  assert.is(api.read(claims, "c").status?.phase, "Active");
});

test.run();
