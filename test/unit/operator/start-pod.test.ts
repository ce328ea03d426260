import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { claims } from "../../../crds/kinds.ts";
import { startPod } from "../../../operator/claim/start-pod.ts";
import { testOperator } from "./test-operator.ts";

test("startPod: refuses a claim whose labels no pod can have, as servers before 1.25 let one through", async () => {
  const { api, context } = testOperator();
  const claimWith = (labels: Claim["spec"]["labels"]) =>
    api.add(claims, { metadata: { name: "c" }, spec: { tenantId: "t", workloadRef: "w", ...(labels && { labels }) } });
  const reasonOf = async (labels?: Claim["spec"]["labels"]) => {
    const outcome = await startPod(claimWith(labels), context);
    return outcome !== undefined && "next" in outcome && outcome.next === "fail" ? outcome : undefined;
  };
  const refused = await reasonOf({ "tenancy.dev/tenant": "victim" });
  assert.is(refused?.reason, "InvalidLabels");
  assert.match(refused?.message ?? "", /^spec\.labels: "tenancy\.dev\/tenant" must be the name of a label/);
  assert.not.match(refused?.message ?? "", "victim");
  for (const labels of [undefined, { team: "red" }]) assert.is((await reasonOf(labels))?.reason, "WorkloadNotFound");
});

test.run();
