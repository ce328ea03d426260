// @runtimes node
import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Workload } from "../../../crds/workload.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import { ensureEgress } from "../../../operator/egress/ensure-egress.ts";

const changed: Workload = {
  metadata: { name: "w", namespace: "n", uid: "u", generation: 2 },
  spec: { image: { ref: "a" } },
  status: { phase: "Ready", observedGeneration: 1 },
};

async function deletions(informers: Partial<OperatorContext["informers"]>): Promise<number> {
  let count = 0;
  const context = {
    ...{ config: { namespace: "n" }, informers, ensuredEgress: new Map() },
    client: { delete: async () => void count++ },
    metrics: { forgetCertificate: () => undefined },
  };
  await ensureEgress(changed, context as unknown as OperatorContext);
  return count;
}

test("ensureEgress: deletes nothing of a changed workload where proxies have no image, as manifests/base has it", async () => {
  assert.is(await deletions({ egress: undefined }), 0);
});

test("ensureEgress: deletes what a changed workload's proxy lived by", async () => {
  const store = { get: () => undefined };
  const egress = { configMaps: { store }, secrets: { store } } as unknown as OperatorContext["informers"]["egress"];
  assert.is(await deletions({ egress }), 3);
});

test.run();
